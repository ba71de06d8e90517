// The mirrored token tree (docs/protocol.md): the committed text and the
// guesses that hang under its end. Both sides of a stream hold one, number its nodes alike and
// prune it by the same rule, so that each knows what the other knows without being told.
//
//   text  t0 t1 ... t[end-1]      the root is the end of the text
//                      +- a - b   nodes: a at position end, b at end + 1
//                      +- c
//
// The edge adds nodes and sends some of them; a node gets its id when it is sent, parents first.
// The verifier receives them. Both commit the verdict's tokens: nodes on the walked path become
// text, what hangs under its end stays, everything else dies. On the verifier every node was
// received, so it has an id; on the edge id 0 marks a node not yet sent.
//
// Thread rule: owned by one thread. Errors: receive() checks everything that comes off the wire;
// the other calls take our own values and abort on a bug. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/tree/grow.h"
#include "common/tree/grow_check.h"
#include "common/tree/id_ledger.h"

namespace outrider {

struct TreeNode {
  TokenId token = 0;
  NodeIndex parent = kRoot;
  Position position = 0;
  NodeId id = 0;                    // the first that was given for it; 0: not sent
  std::vector<NodeIndex> children;  // in the order they were added

  // What a side hangs on its nodes; the tree itself only carries it.
  float confidence = 0;    // 0..1: that the node stands if its parent does
  std::int32_t slot = -1;  // of this side's KV cache (kv_slots.h); -1: none
};

// The states that the nodes of one Grow were given on arrival.
struct Received {
  std::uint32_t living = 0;  // aliases included
  std::uint32_t committed = 0;
  std::uint32_t dead = 0;
};

class MirroredTree final {
 public:
  // text: the committed tokens so far, i.e. the prefix of the stream.
  explicit MirroredTree(std::vector<TokenId> text);

  // The number of committed tokens: the first undecided position.
  Position end() const { return static_cast<Position>(text_.size()); }
  std::span<const TokenId> text() const { return text_; }

  // --- looking (kRoot may stand for a parent everywhere) ---
  const TreeNode& node(NodeIndex node) const;
  std::span<const NodeIndex> children(NodeIndex parent) const;
  // The child of `parent` with this token, or kNoNode.
  NodeIndex child(NodeIndex parent, TokenId token) const;
  // Whether the node still lives; stays callable with the index of one that does not.
  bool contains(NodeIndex node) const;
  // The living nodes, sent or not, by index. Not to be walked while nodes are added.
  auto nodes() const {
    return std::views::iota(NodeIndex{0}, static_cast<NodeIndex>(slots_.size())) |
           std::views::filter([this](NodeIndex node) { return contains(node); });
  }
  // How many; and one more than the largest index in use, for arrays beside the tree.
  std::size_t size() const { return size_; }
  std::size_t index_limit() const { return slots_.size(); }

  // The ids of this stream. On both sides the living ids are the same after the same messages.
  const IdLedger& ids() const { return ids_; }

  // --- growing, on the edge ---
  // The child of `parent` with this token: made if there is none yet.
  NodeIndex add(NodeIndex parent, TokenId token);
  void set_confidence(NodeIndex node, float confidence);
  void set_slot(NodeIndex node, std::int32_t slot);
  // Forgets an unsent node and everything below it (which then is unsent too).
  void remove_unsent(NodeIndex node);
  // Numbers the nodes and makes their message, anchored at end(). Each must be unsent; its parent
  // the root, sent before, or earlier in the list. No nodes: the empty Grow, which asks for a pass.
  Grow send(std::span<const NodeIndex> nodes);

  // --- growing, on the verifier ---
  // Applies the peer's message. On an error the stream is over and the tree half changed.
  // INVALID_ARGUMENT: first_id, a parent, a token or the number of nodes is wrong;
  // FAILED_PRECONDITION: the anchor lies beyond end().
  Result<Received> receive(const Grow& grow, const ReceiveLimits& limits);

  // --- both ---
  // Appends decided tokens to the text, walks the tree along them, re-roots it there and drops all
  // else. Returns the nodes that became text, in order: nodes [0, n) match tokens [0, n).
  std::vector<TreeNode> commit(std::span<const TokenId> tokens);

 private:
  struct StorageSlot {
    TreeNode node;
    bool used = false;
  };

  StorageSlot& at(NodeIndex node);
  std::vector<NodeIndex>& children_of(NodeIndex parent);
  void drop(NodeIndex node);  // and everything below it
  void detach(NodeIndex node);
  // The state that a node's path gives it; makes the node if that is living.
  IdState arrive(const GrowNode& node, IdState parent);

  std::vector<TokenId> text_;
  std::vector<StorageSlot> slots_;
  std::vector<NodeIndex> free_;
  std::vector<NodeIndex> root_children_;
  std::size_t size_ = 0;
  IdLedger ids_;
};

}  // namespace outrider

// The mirrored token tree (docs/protocol.md): the committed text and the guesses below its end.
// Both sides of a stream hold one, number its nodes alike and prune it by the same rule, so each
// side knows the other's tree without extra messages.
//
//   text  t0 t1 ... t[end-1]      the root is the end of the text
//                      +- a - b   nodes: a at position end, b at end + 1
//                      +- c
//
// The edge adds nodes and sends some of them; a node gets its id when it is sent, parents first.
// The verifier receives them. Both commit the verdict's tokens: nodes on the walked path become
// text, nodes below its end stay, all others die. Id 0 marks a node that the other side does not
// know: on the edge one that is not yet sent, on the verifier one of its own.
//
// Thread rule: owned by one thread. Errors: receive() checks everything from the network; the other
// calls take our own values and abort on a bug. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/tree/grow.h"
#include "common/decoding/tree/id_ledger.h"

namespace outrider {

struct TreeNode {
  TokenId token = 0;
  NodeIndex parent = kRoot;
  Position position = 0;
  NodeId id = 0;                    // its first id; 0: the other side does not know it
  std::vector<NodeIndex> children;  // in the order they were added

  // Data that a side attaches to its nodes; the tree does not read them.
  float confidence = 0;    // 0..1: chance that the node is accepted if its parent is
  std::int32_t slot = -1;  // of this side's KV cache (kv_slots.h); -1: none
  // On a verifier in the edge's process: what the draft guessed to follow. Empty: not known.
  std::vector<DraftCandidate> candidates = {};
};

// The states that the nodes of one Grow were given on arrival.
struct Received {
  std::uint32_t living = 0;  // aliases included
  std::uint32_t committed = 0;
  std::uint32_t dead = 0;
};

// The bounds that receive() checks a message against.
struct ReceiveLimits {
  std::int32_t vocab_size = 0;
  std::uint32_t max_nodes = 0;  // living ids at once, aliases included
};

class MirroredTree final {
 public:
  // text: the committed tokens so far, i.e. the prefix of the stream.
  explicit MirroredTree(std::vector<TokenId> text);

  // The number of committed tokens: the first undecided position.
  Position end() const { return static_cast<Position>(text_.size()); }
  std::span<const TokenId> text() const { return text_; }

  // --- reading (kRoot is valid wherever a parent is expected) ---
  const TreeNode& node(NodeIndex node) const;
  std::span<const NodeIndex> children(NodeIndex parent) const;
  // The guesses of the edge's draft below `parent`, on a verifier in the same process; empty if
  // they are not known.
  std::span<const DraftCandidate> candidates(NodeIndex parent) const;
  // The child of `parent` with this token, or kNoNode.
  NodeIndex child(NodeIndex parent, TokenId token) const;
  // Whether the node still lives. May be called with the index of a dead node.
  bool contains(NodeIndex node) const;
  // The living nodes, sent or not, by index. Do not iterate while adding nodes.
  auto nodes() const {
    return std::views::iota(NodeIndex{0}, static_cast<NodeIndex>(slots_.size())) |
           std::views::filter([this](NodeIndex node) { return contains(node); });
  }
  // The number of living nodes; and one more than the largest index in use, for arrays beside the
  // tree.
  std::size_t size() const { return size_; }
  std::size_t index_limit() const { return slots_.size(); }

  // The ids of this stream. Both sides have the same living ids after the same messages.
  const IdLedger& ids() const { return ids_; }

  // --- growing ---
  // The child of `parent` with this token; adds it if there is none.
  NodeIndex add(NodeIndex parent, TokenId token);
  void set_confidence(NodeIndex node, float confidence);
  void set_slot(NodeIndex node, std::int32_t slot);
  // Removes a node without an id and everything below it (which has none either).
  void remove_unsent(NodeIndex node);
  // Removes all that have none.
  void remove_all_unsent();

  // --- growing, on the edge ---
  // Assigns ids to the nodes and makes their message, anchored at end(). Each node must be unsent;
  // its parent is the root, was sent before, or is earlier in the list. Without nodes: the empty
  // Grow, which requests a pass.
  Grow send(std::span<const NodeIndex> nodes);

  // --- growing, on the verifier ---
  // Applies the peer's message. A node that repeats one of the verifier's own is the edge's from
  // then on. After an error the stream is over and the tree is left half
  // changed. INVALID_ARGUMENT: first_id, a parent, a token or the number of nodes is wrong;
  // FAILED_PRECONDITION: the anchor lies beyond end().
  Result<Received> receive(const Grow& grow, const ReceiveLimits& limits);

  // --- both ---
  // Appends decided tokens to the text, walks the tree along them, makes the walk's end the root
  // and drops all else. Returns the nodes that became text, in order: nodes [0, n) match tokens [0,
  // n).
  std::vector<TreeNode> commit(std::span<const TokenId> tokens);

 private:
  struct StorageSlot {
    TreeNode node;
    bool used = false;
  };

  StorageSlot& at(NodeIndex node);
  std::vector<NodeIndex>& children_of(NodeIndex parent);
  std::vector<CandidateSet> candidates_beside(std::span<const NodeIndex> nodes) const;
  void take_candidates(const Grow& grow, std::int32_t vocab_size);
  void drop(NodeIndex node);  // and everything below it
  void detach(NodeIndex node);
  // The state that follows from the node's path; adds the node if it is living.
  IdState arrive(const GrowNode& node, IdState parent);

  std::vector<TokenId> text_;
  std::vector<StorageSlot> slots_;
  std::vector<NodeIndex> free_;
  std::vector<NodeIndex> root_children_;
  std::vector<DraftCandidate> root_candidates_;
  std::size_t size_ = 0;
  IdLedger ids_;
};

}  // namespace outrider

// The drafting brain: the edge's mirrored token tree (common/tree) and three verbs on it.
//
//   restart (grow finish_step | select | commit)*
//
// grow() says which rows of the draft model to run next, select() which nodes to send, commit()
// takes a verdict. What to grow is the policy's word; the model itself runs elsewhere
// (draft_engine.h), one step at a time, so this class is pure (DESIGN L4). The draft guesses with
// the target's noise (L1): a step's guesses come ranked by perturbed score.
//
// The draft's KV follows the committed text lazily: the next step commits the slots of accepted
// nodes and runs the rows of tokens that have none (the last accepted node, the token after it).
//
// Thread rule: none of its own; used by the event thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/tree/mirrored_tree.h"
#include "edge_client/drafting/draft_step.h"
#include "edge_client/drafting/growth_policy.h"

namespace outrider {

struct DrafterOptions {
  Position max_positions = 0;   // the draft's context: it guesses positions <= this
  std::int32_t vocab_size = 0;  // the draft's
  int prefill_chunk = 64;       // rows of one catch-up step: a cancel waits no longer than that
};

class Drafter final {
 public:
  // policy: nullptr for decoding without a draft; then grow() never has a step.
  Drafter(const DrafterOptions& options, std::unique_ptr<GrowthPolicy> policy);

  // Begins a stream at this text: no nodes, ids from 1. The KV of the longest common prefix with
  // the text before is kept.
  void restart(std::span<const TokenId> committed);

  // The next step for the draft model, or nothing: a step is out, the policy has enough, or the
  // draft can go no further. max_depth: as deep as nodes can be of use.
  std::optional<DraftStep> grow(Position max_depth);

  // The step given last is done.
  void finish_step(const DraftStepDone& done);
  bool step_is_out() const { return step_is_out_; }

  // The nodes to send now: all that were not sent, as far as the verifier takes them. It holds at
  // most max_nodes living ones; token_bound is its vocabulary. Marks them as sent.
  Grow select(std::size_t max_nodes, std::int32_t token_bound);

  // Takes newly committed tokens: re-roots the tree, frees what died.
  void commit(std::span<const TokenId> tokens);

  // Why the draft can guess no further, for the reader; nothing while it can.
  std::optional<std::string> exhausted() const;

  const MirroredTree& tree() const { return tree_; }

 private:
  // A committed token whose KV is not committed in the draft's cache yet.
  struct Pending {
    TokenId token = 0;
    Slot slot = kRootSlot;  // of its row; kRootSlot: it was not run
    bool in_step = false;   // the step that is out runs it
  };

  // The living node whose row is worth most; kNoNode if none may be run.
  NodeIndex best_to_grow(Position max_depth) const;
  void settle_accepted(DraftStep& step);
  void fill_catch_up(DraftStep& step);
  void add_guesses(NodeIndex parent, const std::vector<Guess>& guesses);
  void take_pending(TokenId token, Slot slot, bool in_step);

  const DrafterOptions options_;
  const std::unique_ptr<GrowthPolicy> policy_;
  MirroredTree tree_;
  bool root_expanded_ = false;    // the root's children are known
  std::vector<TokenId> cached_;   // what the cache holds committed once the steps given are done
  std::optional<Position> keep_;  // cut the cache first
  std::vector<Pending> pending_;  // committed, not in cached_
  std::optional<TokenId> foreign_token_;  // committed, outside the draft's vocabulary

  bool step_is_out_ = false;
  bool step_guesses_root_ = false;  // the step is a catch-up that reached the text's end ..
  Position step_end_ = 0;           // .. which was this
  std::size_t step_rows_ = 0;       // tree rows of the step
  NodeIndex step_node_ = kNoNode;   // whose row it runs; kNoNode if that died or was committed
};

}  // namespace outrider

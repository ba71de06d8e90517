// The drafting brain: three verbs on the edge's mirrored token tree (hypothesis_tree.h).
//
//   restart (grow finish_step | select | advise | on_pass_started | commit)*
//
// grow() says which rows of the draft model to run next, select_*() which nodes to send, commit()
// takes a verdict. The policy decides what to grow; the model itself runs elsewhere
// (draft_engine.h), one step at a time, so this class is pure (DESIGN L4). The draft guesses with
// the target's noise (L1): a step's guesses come ranked by perturbed score.
//
// Bounds: at most DrafterOptions::max_nodes nodes, so at most as many tree slots of the draft's KV
// cache; the least likely unsent ones are forgotten first. A living node that was sent never is.
//
// Thread rule: none of its own; used by the event thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/drafting/draft_step.h"
#include "common/drafting/draft_text.h"
#include "common/drafting/growth_policy.h"
#include "common/drafting/hypothesis_tree.h"
#include "common/drafting/round_planner.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

struct DrafterOptions {
  Position max_positions = 0;   // the draft's context: it guesses positions <= this
  std::int32_t vocab_size = 0;  // the draft's
  int prefill_chunk = 64;       // rows of one catch-up step: a cancel waits no longer than that
  int workers = 1;              // hypotheses that one step serves at once
  std::size_t max_nodes = 256;  // the tree's bound, sent nodes included; more than one Grow holds
};

class Drafter final {
 public:
  explicit Drafter(const DrafterOptions& options);

  // Begins a stream at this text: no nodes, ids from 1. The KV of the longest common prefix with
  // the text before is kept.
  void restart(std::span<const TokenId> committed);

  // The next step for the draft model, or nothing: a step is out, nothing is worth a row to the
  // policy, or the draft can go no further. max_depth: as deep as nodes can be of use.
  std::optional<DraftStep> grow(const GrowthPolicy& policy, Position max_depth);

  // The step given last is done.
  void finish_step(const DraftStepDone& done);
  bool step_is_out() const { return step_is_out_; }
  // The step that is out runs rows of dead nodes only.
  bool step_is_obsolete() const;

  // Sends what is drafted of a round, less what was sent. The verifier holds at most max_nodes
  // living nodes; token_bound is the size of its vocabulary.
  Grow select_round(const RoundShape& shape, std::size_t max_nodes, std::int32_t token_bound) {
    return nodes_.send_round(shape, max_nodes, token_bound);
  }
  // A round that is a tree. limits: those of the answer and of the verifier; the draft's own are
  // filled in. send_plan() sends what was not sent of a plan's nodes, and tells the planner.
  RoundPlan plan(RoundPlanner& planner, const PlanLimits& limits);
  Grow send_plan(const RoundPlan& plan, RoundPlanner& planner, const PlanLimits& limits);

  // The rounds that could be sent for outcomes of the pass in flight, likeliest first.
  std::vector<DraftedRound> rounds_ahead(const ChainBounds& bounds, std::int32_t token_bound) {
    return nodes_.rounds_ahead(bounds, token_bound);
  }
  // Sends these nodes, parents first.
  Grow select(std::span<const NodeIndex> nodes) { return nodes_.send(nodes); }

  // Whether every branch of the round is drafted to its whole length.
  bool round_is_whole(const RoundShape& shape) const;

  // A pass took the living nodes with id <= last_id, less those left out.
  void on_pass_started(NodeId last_id, std::span<const NodeId> left_out) {
    nodes_.on_pass_started(last_id, left_out);
  }

  // Takes the advice of an early exit: makes the outcome's node if it is not there, and weighs it.
  void advise(const ExitAdvice& advice);

  // What the cache holds for these tokens, of a round within these bounds; before commit().
  CacheLookup look_up(std::span<const TokenId> tokens, const ChainBounds& round) const {
    return nodes_.look_up(tokens, round, step_rows_);
  }
  // Takes newly committed tokens, at least one: re-roots the tree, frees what died. Returns how
  // many sent nodes died that no pass ever took.
  std::size_t commit(std::span<const TokenId> tokens);

  // Nodes that are rows of the pass in flight, as far as is known.
  std::size_t rows_in_flight() const { return nodes_.rows_in_flight(); }

  // Why the draft can guess no further, for the reader; nothing while it can.
  std::optional<std::string> exhausted() const;

  const MirroredTree& tree() const { return nodes_.tree(); }
  // Unsent nodes that were forgotten to stay within the bound.
  std::uint64_t evicted() const { return nodes_.evicted(); }

 private:
  PlanLimits with_own(PlanLimits limits) const;
  std::vector<NodeIndex> most_wanted(const GrowthPolicy& policy, Position max_depth);
  bool may_run(NodeIndex node, Position max_depth) const;
  void add_rows(NodeIndex node, DraftStep& step);
  int row_of(NodeIndex node) const;
  void keep_bound();

  const DrafterOptions options_;
  HypothesisTree nodes_;
  DraftText text_;
  bool root_expanded_ = false;            // the root's children are known
  std::optional<TokenId> foreign_token_;  // committed, outside the draft's vocabulary
  std::vector<Slot> forgotten_;           // slots of evicted nodes, for the next step to free

  bool step_is_out_ = false;
  bool step_guesses_root_ = false;    // the step is a catch-up that reaches the text's end
  Position step_end_ = 0;             // the text's end as the step was made
  std::vector<NodeIndex> step_rows_;  // of the step that is out; kNoNode: died or was committed
};

}  // namespace outrider

// Decides what to draft: three verbs on the edge's copy of the mirrored token tree
// (hypothesis_tree.h).
//
//   restart (grow finish_step | select | advise | on_pass_started | commit)*
//
// grow() says which rows of the draft model to run next, nodes() and send_plan() select which nodes
// to send, commit() takes the tokens of a verdict. A policy decides what to grow. The model runs
// elsewhere (draft_engine.h), one step at a time, so this class is pure. The draft guesses with the
// target's noise: a step's guesses are ranked by perturbed score.
//
// Bounds: the tree holds at most DrafterOptions::max_nodes nodes, and uses as many slots of the
// draft's KV cache at most. The least likely unsent nodes are evicted first; a living node that was
// sent never is.
//
// Thread rule: none of its own; used by the event thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/decoding/drafting/draft_step.h"
#include "common/decoding/drafting/growth_policy.h"
#include "common/decoding/drafting/hypothesis_tree.h"
#include "common/decoding/drafting/round_planner.h"
#include "common/decoding/tree/mirrored_tree.h"

namespace outrider {

// Hypotheses that one step of an edge's draft extends, unless its user asks for others.
inline constexpr int kDraftWorkers = 4;

struct DrafterOptions {
  Position max_positions = 0;   // the draft's context: it guesses positions <= this
  std::int32_t vocab_size = 0;  // the draft's
  int prefill_chunk = 64;       // rows of one catch-up step: a cancel waits no longer than that
  int workers = 1;              // hypotheses that one step extends at once
  std::size_t max_nodes = 256;  // the tree's bound, sent nodes included; more than one Grow holds
};

// How the draft's KV cache follows the committed text, lazily: the next step commits the slots of
// accepted nodes, and runs the rows of committed tokens that have none (the last accepted node, the
// token after it).
//
//   restart (append | settle fill_catch_up | row_done)*
class DraftText final {
 public:
  // Begins again with this text; keeps the KV of the longest common prefix with the text before.
  void restart(std::span<const TokenId> committed);

  // A committed token. slot: of its row; kRootSlot if that was not run. step_row: the row of the
  // draft step that is out which runs it, or -1.
  void append(TokenId token, Slot slot, int step_row);

  // A row of the draft step is done. If it is a committed token's, the token gets its slot. True if
  // this token is the last of the text.
  bool row_done(int step_row, Slot slot);

  // A committed token waits for a row of the draft step that is out.
  bool awaits_row() const;

  // Adds to the step what to cut and to commit before its rows.
  void settle(DraftStep& step);
  // Adds to the step at most `chunk` committed tokens without KV.
  void fill_catch_up(DraftStep& step, std::size_t chunk);

 private:
  // A committed token whose KV is not committed in the draft's cache yet.
  struct Pending {
    TokenId token = 0;
    Slot slot = kRootSlot;
    int step_row = -1;
  };

  std::vector<TokenId> cached_;   // what the cache holds committed once the steps given are done
  std::optional<Position> keep_;  // cut the cache first
  std::vector<Pending> pending_;  // committed, not in cached_
};

class Drafter final {
 public:
  explicit Drafter(const DrafterOptions& options);

  // A new stream begins at this text: no nodes, ids from 1. The KV of the longest common prefix
  // with the text before is kept.
  void restart(std::span<const TokenId> committed);

  // The next step for the draft model. Nothing if a step is out, the policy wants no row, or the
  // draft cannot go on. max_depth: deeper nodes would be useless.
  std::optional<DraftStep> grow(const GrowthPolicy& policy, Position max_depth);

  // The step that is out is done.
  void finish_step(const DraftStepDone& done);
  // The step that is out failed: the draft model is in no defined state, and runs no more of this
  // answer's rows.
  void drop_step();
  bool step_is_out() const { return step_is_out_; }
  // The step that is out runs rows of dead nodes only.
  bool step_is_obsolete() const;

  // The tree with its notes: to send from it, and to say what a pass took. What changes its nodes
  // or its text is the drafter's alone.
  HypothesisTree& nodes() { return nodes_; }
  const MirroredTree& tree() const { return nodes_.tree(); }

  // A round that is a tree. limits: those of the answer and of the verifier; plan() fills in the
  // draft's. send_plan() sends the nodes of the plan that were not sent yet, and notifies the
  // planner.
  RoundPlan plan(RoundPlanner& planner, const PlanLimits& limits);
  Grow send_plan(const RoundPlan& plan, RoundPlanner& planner, const PlanLimits& limits);

  // Whether every branch of the round is drafted to its whole length.
  bool round_is_whole(const RoundShape& shape) const;

  // Takes the advice of an early exit: makes the outcome's node if it is not there, and weighs it.
  void advise(const ExitAdvice& advice);

  // The nodes that the pre-draft cache holds for these tokens, for a round within these bounds.
  // Call before commit().
  CacheLookup look_up(std::span<const TokenId> tokens, const ChainBounds& round) const {
    return nodes_.look_up(tokens, round, step_rows_);
  }
  // Takes newly committed tokens, at least one: re-roots the tree and frees what died. Returns how
  // many nodes died that were sent and that no pass ever took.
  std::size_t commit(std::span<const TokenId> tokens);

  // Why the draft cannot go on, in words for the user; nothing while it can.
  std::optional<std::string> exhausted() const;

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
  std::vector<Slot> evicted_slots_;       // for the next step to free

  bool step_is_out_ = false;
  bool step_guesses_root_ = false;    // the step is a catch-up that reaches the text's end
  Position step_end_ = 0;             // the text's end as the step was made
  std::vector<NodeIndex> step_rows_;  // of the step that is out; kNoNode: died or was committed
};

}  // namespace outrider

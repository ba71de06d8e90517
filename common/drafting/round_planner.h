// A round that is a tree: which of the drafted nodes one pass verifies, and whose rows the draft
// should run before the round leaves. LLMCad, EdgeLLM, LEVER and their baselines are planners
// (trees/); each works with every verifier, since none of them sees one.
//
//   plan (run the rows of plan.expand, plan)* send plan.nodes, on_sent, on_verdict
//
// A plan follows from the tree and from what the planner has learnt from verdicts, so that planning
// anew after each draft step gives what one long planning would have given.
//
// Thread rule: pure; owned by the strategy. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/drafting/growth_policy.h"

namespace outrider {

// What bounds a round.
struct PlanLimits {
  std::size_t max_nodes = 0;          // that the verifier takes
  Position max_depth = 0;             // deeper nodes are of no use
  std::int32_t token_bound = 0;       // tokens below this may be sent
  Position draft_positions = 0;       // the draft runs rows of positions below this,
  std::int32_t draft_vocabulary = 0;  // and of tokens below this
};

// The tree as a planner sees it.
class PlanView final {
 public:
  // root_known: the draft's guesses for what follows the text are there.
  PlanView(const GrowthView& view, const PlanLimits& limits, bool root_known)
      : view_(view), limits_(limits), root_known_(root_known) {}

  const PlanLimits& limits() const { return limits_; }
  auto nodes() const { return view_.tree.nodes(); }
  Position depth(NodeIndex node) const { return node == kRoot ? 0 : depth_of(view_.tree, node); }
  NodeIndex parent(NodeIndex node) const { return view_.tree.node(node).parent; }
  TokenId token(NodeIndex node) const { return view_.tree.node(node).token; }

  // Whether the draft's guesses for what follows the node are there.
  bool is_expanded(NodeIndex node) const {
    return node == kRoot ? root_known_ : view_.tree.node(node).slot != kNoSlot;
  }
  // Whether its row can be run, and children of it could be sent.
  bool can_expand(NodeIndex node) const;

  // The children that could be sent, in the order in which they were guessed.
  std::vector<NodeIndex> candidates(NodeIndex node) const;

  // The draft's own confidence in a node, its parent standing (an exit's where the draft never
  // guessed it): what the papers work with.
  double confidence(NodeIndex node) const;
  // The chance that a node becomes text, by experience and exits: what ours works with.
  double chance(NodeIndex node) const { return node == kRoot ? 1 : view_.weight(node); }

 private:
  static constexpr std::int32_t kNoSlot = -1;

  const GrowthView view_;
  const PlanLimits limits_;
  const bool root_known_;
};

struct RoundPlan {
  std::vector<NodeIndex> nodes = {};   // of the round so far, parents before children
  std::vector<NodeIndex> expand = {};  // rows to run first, best first; none: the round is whole
};

// What the pass of a verdict was.
struct PassShape {
  std::size_t rows = 0;
  double ms = 0;        // that the target computed, waits for its weights included; 0: unknown
  double cycle_ms = 0;  // since the verdict before, drafting included; 0: unknown
};

class RoundPlanner {
 public:
  virtual ~RoundPlanner() = default;

  // How many candidates a node gets when its row is run. At least 1.
  virtual int fan_out() const = 0;

  virtual RoundPlan plan(const PlanView& view) = 0;

  // That plan's nodes left for the verifier.
  virtual void on_sent(const RoundPlan& /*plan*/, const PlanView& /*view*/) {}

  // The verdict on what was sent last: the tokens that became text.
  virtual void on_verdict(std::span<const TokenId> /*tokens*/, const PassShape& /*pass*/) {}
};

// Grows what a plan wants: its rows, best first.
class PlannedGrowth final : public GrowthPolicy {
 public:
  PlannedGrowth(const RoundPlan& plan, int fan_out) : expand_(plan.expand), fan_out_(fan_out) {}

  int fan_out() const override { return fan_out_; }
  bool wants_root() const override { return !expand_.empty() && expand_.front() == kRoot; }
  double worth(const GrowthView& view, NodeIndex node) const override;

 private:
  const std::vector<NodeIndex> expand_;
  const int fan_out_;
};

}  // namespace outrider

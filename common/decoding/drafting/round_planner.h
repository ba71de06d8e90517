// Rounds that are trees: which of the drafted nodes one pass verifies, and which rows the draft
// runs before the round is sent. LLMCad, EdgeLLM and LEVER, their baselines and our own policy are
// planners (trees/). A planner does not see the verifier, so each works with every verifier.
//
//   plan (run the rows of plan.expand, plan)* send plan.nodes, on_sent, on_verdict
//
// A plan follows from the tree and from what the planner has learnt from verdicts alone. So
// planning again after each draft step gives the same as one long planning would have.
//
// Thread rule: pure; owned by the strategy. Units: milliseconds where a name says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/decoding/drafting/growth_policy.h"

namespace outrider {

// The bounds of a round.
struct PlanLimits {
  std::size_t max_nodes = 0;          // that the verifier takes
  Position max_depth = 0;             // deeper nodes would be useless
  std::int32_t token_bound = 0;       // tokens below this may be sent
  Position draft_positions = 0;       // the draft runs rows of positions below this,
  std::int32_t draft_vocabulary = 0;  // and of tokens below this
};

// The tree as a planner sees it.
class PlanView final {
 public:
  // root_known: the draft has guessed what follows the text.
  PlanView(const GrowthView& view, const PlanLimits& limits, bool root_known)
      : view_(view), limits_(limits), root_known_(root_known) {}

  const PlanLimits& limits() const { return limits_; }
  auto nodes() const { return view_.tree.nodes(); }
  Position depth(NodeIndex node) const { return node == kRoot ? 0 : depth_of(view_.tree, node); }
  NodeIndex parent(NodeIndex node) const { return view_.tree.node(node).parent; }
  TokenId token(NodeIndex node) const { return view_.tree.node(node).token; }

  // Whether the draft has guessed what follows the node.
  bool is_expanded(NodeIndex node) const {
    return node == kRoot ? root_known_ : view_.tree.node(node).slot != kNoSlot;
  }
  // Whether the draft can run its row, and its children could be sent.
  bool can_expand(NodeIndex node) const;

  // The children that could be sent, in the order in which they were guessed.
  std::vector<NodeIndex> candidates(NodeIndex node) const;

  // The draft's own confidence in a node if its parent is accepted (an exit's confidence where the
  // draft never guessed it). The papers' policies use this.
  double confidence(NodeIndex node) const;
  // The chance that a node becomes text, calibrated and with the exits' advice. Our policy uses
  // this.
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

// The pass of a verdict.
struct PassShape {
  std::size_t rows = 0;
  double ms = 0;        // time of the target, waiting for its weights included; 0: unknown
  double cycle_ms = 0;  // from the verdict before to this one, drafting included; 0: unknown
};

// The nodes of a round that were sent, kept because the tree forgets it with the commit: which
// branch of it the verdict followed, and how far.
class SentRound final {
 public:
  SentRound() = default;
  SentRound(const RoundPlan& plan, const PlanView& view);

  struct Match {
    std::size_t accepted = 0;  // nodes of the round that became text
    std::size_t length = 0;    // of the longest branch through the last of them
    // The positions that were decided and for which the draft had candidates: how many there were,
    // in how many of them a candidate was the token, and in how many the best candidate was.
    std::size_t asked = 0;
    std::size_t named = 0;
    std::size_t first = 0;
  };
  Match match(std::span<const TokenId> tokens) const;

  std::size_t size() const { return nodes_.size(); }
  std::size_t leaves() const { return leaves_; }

 private:
  struct Node {
    NodeIndex index = kNoNode;
    std::size_t parent = 0;  // index in nodes_ plus 1; 0: the root
    TokenId token = 0;
    std::size_t below = 0;  // length of the longest branch below
    std::vector<TokenId> candidates = {};
  };

  std::vector<Node> nodes_;
  std::vector<TokenId> root_candidates_;
  std::size_t leaves_ = 0;
};

class RoundPlanner {
 public:
  virtual ~RoundPlanner() = default;

  // How many candidates a node gets when its row is run. At least 1.
  virtual int fan_out() const = 0;

  virtual RoundPlan plan(const PlanView& view) = 0;

  // The nodes of this plan were sent.
  virtual void on_sent(const RoundPlan& /*plan*/, const PlanView& /*view*/) {}

  // The verdict on what was sent last: the tokens that became text.
  virtual void on_verdict(std::span<const TokenId> /*tokens*/, const PassShape& /*pass*/) {}
};

// Grows the rows that a plan wants, best first.
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

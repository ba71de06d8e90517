// The width-adaptive trees of LLMCad (section 3.2, equations 1 and 2; section 3.3, equation 3) and
// EdgeLLM (section III-B, equations 1 and 2; section III-C, equation 3).
//
// A branch is a path from the root to a leaf of the round. C_i is the product of the draft's
// confidences along it, T_i its length, M the number of nodes of the tree. Each draft step adds the
// draft's best token to the branch that is furthest below its due length, M C_i (LLMCad: M C_i /
// sum C). Any other token of which the draft is sure enough begins a new branch. Growth ends where
// the tree's confidence, max C_i, falls below a threshold alpha, which adapts to verdicts:
//
//   alpha <- alpha / 2                                     if the whole best-matching branch was
//   accepted alpha <- alpha / Tc ^ ((N_all - N_correct) / N_all)    otherwise; Tc: the tree's
//   confidence
//
// Thread rule: pure; owned by the strategy. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/decoding/drafting/round_planner.h"

namespace outrider {

class BranchPacer final : public RoundPlanner {
 public:
  struct Options {
    bool normalised = false;     // LLMCad's C_i / sum C instead of EdgeLLM's C_i
    double threshold = 0.01;     // alpha at the start (both papers)
    double relax = 0.5;          // alpha's factor where a whole branch was accepted (both papers)
    bool adapts = true;          // false: alpha stays, for comparison
    double new_branch = 0.3;     // a token of this confidence or more begins a branch (LLMCad, 3.1)
    std::size_t max_nodes = 32;  // of a round; the papers bound it by alpha alone
  };

  explicit BranchPacer(const Options& options) : options_(options), alpha_(options.threshold) {}

  int fan_out() const override { return 4; }
  RoundPlan plan(const PlanView& view) override;
  void on_sent(const RoundPlan& plan, const PlanView& view) override;
  void on_verdict(std::span<const TokenId> tokens, const PassShape& pass) override;

  double threshold() const { return alpha_; }

 private:
  struct Branch {
    NodeIndex leaf = kRoot;
    double confidence = 1;  // C_i
    double length = 0;      // T_i
    bool ended = false;     // it cannot grow
  };
  const Branch* furthest_below(const std::vector<Branch>& branches, std::size_t nodes) const;
  void grow(const PlanView& view, std::size_t at, RoundPlan& plan,
            std::vector<Branch>& branches) const;

  const Options options_;
  double alpha_;
  SentRound sent_;
  double sent_confidence_ = 1;  // Tc of the round that was sent
};

}  // namespace outrider

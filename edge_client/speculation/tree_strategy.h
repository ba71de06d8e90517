// Speculative decoding whose rounds are trees: LLMCad, EdgeLLM, LEVER, their baselines and ours, by
// the planner's name (common/drafting/trees). A round is drafted as the planner says and verified
// in one pass; with provisional generation (EdgeLLM, section III-D) the draft goes on with what is
// likeliest while the verdict is awaited, and what the verdict confirms stays, with its keys and
// values.
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "common/drafting/trees/make_planner.h"
#include "common/drafting/trees/tree_memory.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

// What earlier answers learnt.
struct AnswerMemory {
  TreeMemory trees;
  RowTimes draft_step;
};

class TreeStrategy final : public SpeculationStrategy {
 public:
  // chain: the round where the kind of tree is a chain. memory: null: begins with nothing.
  TreeStrategy(const TreeOptions& tree, const RoundShape& chain, bool provisional,
               std::shared_ptr<AnswerMemory> memory);

  Policy pass_policy() const override {
    return {.pass_policy = PassPolicy::kOnRequest, .wants_exits = wants_exits_ && !rests()};
  }
  RoundShape round() const override { return chain_; }
  RoundPlanner* planner() override { return planner_.get(); }
  std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& timings) const override;
  void on_target(bool has_exits) override;
  std::optional<PlanChange> on_verdict(const VerdictReview& review,
                                       const Timings& timings) override;
  void begin_with(const LearntPair& learnt) override;
  bool teach(LearntPair& learnt) const override;

 private:
  // Nothing is drafted, so nothing is gained by knowing more.
  bool rests() const { return memory_->trees.payoff.rests(); }

  const TreeOptions tree_;
  const RoundShape chain_;
  const bool provisional_;
  bool wants_exits_ = false;
  std::optional<TimePoint> verdict_at_;  // the last one
  const std::shared_ptr<AnswerMemory> memory_;
  const std::unique_ptr<RoundPlanner> planner_;  // null: a chain
};

}  // namespace outrider

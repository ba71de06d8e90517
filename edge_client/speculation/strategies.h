// The strategies, each with the algorithm that it implements (strategy.h lists them).
//
// Thread rule: pure; owned by the speculator. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "common/decoding/drafting/trees/tree_memory.h"
#include "edge_client/speculation/controller.h"
#include "edge_client/speculation/speculation_notice.h"
#include "edge_client/speculation/speculation_options.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

// The memory that earlier answers of this process leave: the learning of trees, and the reports to
// the user.
struct AnswerMemory {
  TreeMemory trees;
  RowTimes draft_step;
  SpeculationNotice told;
};

// The shape of a round by these options, as in sd.
RoundShape round_of(const SpeculationOptions& options);

// memory: of earlier answers; null: none.
std::unique_ptr<SpeculationStrategy> make_strategy(const SpeculationOptions& options,
                                                   std::shared_ptr<AnswerMemory> memory = nullptr);

// The target decodes alone: a pass starts when the one before has ended.
class ArStrategy final : public SpeculationStrategy {
 public:
  Policy pass_policy() const override { return {.pass_policy = PassPolicy::kEager}; }
  bool speculates() const override { return false; }
  RoundShape round() const override { return {.length = 0}; }
};

// Plain speculative decoding (FSD, section 2; Leviathan et al. 2023): the edge drafts gamma tokens,
// the target verifies them in one pass, and the edge drafts the next round after the verdict.
class SdStrategy final : public SpeculationStrategy {
 public:
  SdStrategy(const RoundShape& round, bool takes_turns)
      : round_(round), takes_turns_(takes_turns) {}

  Policy pass_policy() const override { return {.pass_policy = PassPolicy::kOnRequest}; }
  bool takes_turns() const override { return takes_turns_; }
  RoundShape round() const override { return round_; }

 private:
  const RoundShape round_;
  const bool takes_turns_;
};

// Speculative decoding whose rounds are trees: LLMCad, EdgeLLM, LEVER and ours, by
// the planner's name (common/decoding/drafting/trees). A round is drafted as the planner says and
// verified in one pass. With provisional generation (EdgeLLM, section III-D) the draft goes on with
// the likeliest tokens while the verdict is awaited; what the verdict confirms stays, with its keys
// and values.
class TreeStrategy final : public SpeculationStrategy {
 public:
  // chain: the round if the kind of tree is a chain. memory: null to begin with nothing.
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
  void warm_start(const PairProfile& profile) override;
  bool save_to(PairProfile& profile) const override;

 private:
  // This round is plain decoding: nothing is drafted, so exits would gain nothing.
  bool rests() const { return memory_->trees.payoff.rests(); }

  const TreeOptions tree_;
  const RoundShape chain_;
  const bool provisional_;
  bool wants_exits_ = false;
  std::optional<TimePoint> verdict_at_;  // the last one
  const std::shared_ptr<AnswerMemory> memory_;
  const std::unique_ptr<RoundPlanner> planner_;  // null: a chain
};

// FSD (section 3): while a pass runs, its early exits name outcomes, and the edge drafts the next
// round for each of them, in the order of its queue (algorithm 1). If the verdict is an outcome
// that was drafted, the round is there at once; otherwise it is drafted now, as in plain
// speculative decoding.
class FsdStrategy final : public SpeculationStrategy {
 public:
  FsdStrategy(const RoundShape& round, QueueOrder queue) : round_(round), queue_(queue) {}

  Policy pass_policy() const override {
    return {.pass_policy = PassPolicy::kOnRequest, .wants_exits = true};
  }
  RoundShape round() const override { return round_; }
  std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& timings) const override;
  void on_target(bool has_exits) override { target_has_exits_ = has_exits; }

 private:
  const RoundShape round_;
  const QueueOrder queue_;
  bool target_has_exits_ = false;
};

// Mirrored speculation (docs/design.md): rounds are drafted for every likely outcome, named
// by exits or by the draft itself, and are sent before the verdict, so that the target goes on
// without waiting for the round trip. The controller decides how long rounds are, whether the
// target waits for one after a miss, and whether speculation pays at all.
//
// Where draft and target take turns, nothing is drafted ahead: the target waits for each round,
// which ends where a further token is not worth the time to draft it.
class MirrorStrategy final : public SpeculationStrategy {
 public:
  explicit MirrorStrategy(const SpeculationOptions& options);

  Policy pass_policy() const override { return plan().policy; }
  bool speculates() const override { return plan().speculates; }
  bool takes_turns() const override { return takes_turns_; }
  RoundShape round() const override {
    return {.length = static_cast<std::size_t>(controller_.longest_round()),
            .least_chance = plan().least_chance};
  }
  std::size_t usual_length() const override { return static_cast<std::size_t>(plan().gamma); }
  std::size_t wait_for() const override;
  std::unique_ptr<GrowthPolicy> grow_round(const RoundShape& round) const override;
  std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& timings) const override;
  std::optional<AheadSelection> select_ahead(const SendingView& view,
                                             const Timings& timings) const override;
  void on_target(bool has_exits) override { controller_.target_has_exits(has_exits); }
  void warm_start(const PairProfile& profile) override { controller_.warm_start(profile); }
  bool save_to(PairProfile& profile) const override { return controller_.save_to(profile); }
  std::optional<PlanChange> on_verdict(const VerdictReview& review,
                                       const Timings& timings) override;

 private:
  const SpeculationPlan& plan() const { return controller_.current(); }

  const QueueOrder queue_;
  const Optimize goal_;
  const bool takes_turns_;
  Controller controller_;
};

}  // namespace outrider

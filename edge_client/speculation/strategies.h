// The strategies, each with the algorithm that it implements (strategy.h lists them).
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "edge_client/speculation/controller.h"
#include "edge_client/speculation/strategy.h"
#include "edge_client/speculation/tree_strategy.h"

namespace outrider {

struct StrategyOptions {
  int gamma = 4;                              // drafted tokens of a round; mirror: at most
  int branches = 1;                           // sd, fsd: of a round
  int fan_out = kFanOut;                      // mirror: next tokens considered at each position
  QueueOrder queue = QueueOrder::kPriority;   // fsd, mirror
  Optimize optimize = Optimize::kLatency;     // mirror
  TreeOptions tree = {};                      // sd: what a round is
  std::shared_ptr<AnswerMemory> memory = {};  // of answers before; null: there is none
  std::optional<bool> provisional = {};  // sd: draft on while a verdict is awaited; nothing: as
                                         // the tree's own paper does
};

std::unique_ptr<SpeculationStrategy> make_strategy(Strategy strategy,
                                                   const StrategyOptions& options);

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
  explicit SdStrategy(const RoundShape& round) : round_(round) {}

  Policy pass_policy() const override { return {.pass_policy = PassPolicy::kOnRequest}; }
  RoundShape round() const override { return round_; }

 private:
  const RoundShape round_;
};

// FSD (section 3): while a pass runs, its early exits name outcomes; the edge drafts the next round
// for each of them, in the order of its queue (algorithm 1). When the verdict names an outcome that
// was drafted, the round is there at once; else it is drafted now, as in plain speculation.
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

// Mirrored speculation (DESIGN section 2): rounds are drafted for every likely outcome, exits' and
// the draft's own, and leave before the verdict, so that the target goes on without waiting for the
// round trip. The controller says how long rounds are, whether the target waits for one after a
// miss, and whether speculation pays at all.
class MirrorStrategy final : public SpeculationStrategy {
 public:
  explicit MirrorStrategy(const StrategyOptions& options);

  Policy pass_policy() const override { return plan().policy; }
  bool speculates() const override { return plan().speculates; }
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
  void begin_with(const LearntPair& learnt) override { controller_.begin_with(learnt); }
  bool teach(LearntPair& learnt) const override { return controller_.teach(learnt); }
  std::optional<PlanChange> on_verdict(const VerdictReview& review,
                                       const Timings& timings) override;

 private:
  const SpeculationPlan& plan() const { return controller_.current(); }

  const QueueOrder queue_;
  const Optimize goal_;
  Controller controller_;
};

}  // namespace outrider

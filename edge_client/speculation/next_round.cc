// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/next_round.h"

#include <utility>

namespace outrider {
namespace {

RoundMove next_of_tree(RoundPlanner& planner, Drafter& drafter, const PlanLimits& limits) {
  const RoundPlan plan = drafter.plan(planner, limits);
  if (!plan.expand.empty()) {
    std::optional<DraftStep> step =
        drafter.grow(PlannedGrowth(plan, planner.fan_out()), limits.max_depth);
    if (step || drafter.step_is_out()) return {.step = std::move(step)};
  }
  return {.round = drafter.send_plan(plan, planner, limits)};
}

RoundMove next_of_chains(const SpeculationStrategy& strategy, Drafter& drafter,
                         const RoundBounds& bounds) {
  const Position end = drafter.tree().end();
  RoundShape awaited = strategy.round();
  awaited.length = strategy.wait_for();
  awaited = bounds.useful(awaited, end);
  if (!drafter.round_is_whole(awaited)) {
    std::optional<DraftStep> step =
        drafter.grow(*strategy.grow_round(awaited), bounds.useful_depth(end));
    if (step || drafter.step_is_out()) return {.step = std::move(step)};
  }
  return {.round = drafter.select_round(bounds.useful(strategy.round(), end),
                                        bounds.limits.max_nodes, bounds.vocabulary())};
}

}  // namespace

RoundMove next_move(SpeculationStrategy& strategy, Drafter& drafter, const RoundBounds& bounds) {
  RoundPlanner* const planner = strategy.planner();
  if (planner == nullptr) return next_of_chains(strategy, drafter, bounds);
  return next_of_tree(*planner, drafter, bounds.plan_limits(drafter.tree().end()));
}

}  // namespace outrider

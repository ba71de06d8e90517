// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/best_of.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "bench/harness/statistics.h"

namespace outrider {
namespace {

// Variants of the old plan that one of the new plan may come from: one, or those of a group.
using Group = std::vector<std::size_t>;

std::vector<Group> groups_of(const std::vector<GridVariant>& variants) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bool joins =
        i > 0 && !variants[i].best_of.empty() && variants[i].best_of == variants[i - 1].best_of;
    if (!joins) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

std::optional<double> time_per_token(const GridCell& cell) {
  if (cell.mismatches > 0) return std::nullopt;
  return sum_of(cell.answers).tpot_ms();
}

// A wrong text makes the whole contender invalid: it is kept in place of the best.
std::size_t best_of(const Group& group, const GridCell* cells) {
  std::size_t best = group.front();
  for (const std::size_t variant : group) {
    if (cells[variant].mismatches > 0) return variant;
    const std::optional<double> time = time_per_token(cells[variant]);
    const std::optional<double> least = time_per_token(cells[best]);
    if (time && (!least || *time < *least)) best = variant;
  }
  return best;
}

}  // namespace

BestOfGroups keep_best(const GridPlan& plan, GridResult result) {
  const std::vector<Group> groups = groups_of(plan.variants);
  BestOfGroups out{.plan = plan, .result = {}};
  out.plan.variants.clear();
  for (const Group& group : groups) {
    GridVariant variant = plan.variants[group.front()];
    if (!variant.best_of.empty()) variant.name = variant.best_of;
    out.plan.variants.push_back(std::move(variant));
  }
  // [setting][variant of the old plan]: of the new plan, or nothing
  std::vector<std::vector<std::optional<std::size_t>>> places;
  std::vector<GridCell> cells;
  for (std::size_t setting = 0; setting < plan.settings.size(); ++setting) {
    const GridCell* at = result.cells.data() + setting * plan.variants.size();
    places.emplace_back(plan.variants.size());
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const std::size_t best = best_of(groups[group], at);
      places.back()[best] = group;
      cells.push_back(at[best]);
      cells.back().variant = out.plan.variants[group].name;
    }
  }
  std::vector<FinishedAnswer> finished;
  for (FinishedAnswer& answer : result.finished) {
    const std::optional<std::size_t> place = places[answer.job.setting][answer.job.variant];
    if (!place) continue;
    answer.job.variant = *place;
    finished.push_back(std::move(answer));
  }
  out.result = std::move(result);
  out.result.cells = std::move(cells);
  out.result.finished = std::move(finished);
  return out;
}

}  // namespace outrider

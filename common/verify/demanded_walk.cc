// SPDX-License-Identifier: Apache-2.0
#include "common/verify/demanded_walk.h"

#include "common/sampling/sampling.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxAtOnce = 4;
// A row more costs about a third of what asking once more does.
constexpr double kMinChance = 0.3;
constexpr TokenId kNoToken = -1;

}  // namespace

std::vector<std::size_t> rows_ahead(const PassPlan& plan, std::size_t row,
                                    const std::vector<bool>& there) {
  std::vector<double> chance(plan.nodes.size() + 1, 0);  // of rows that were taken
  std::vector<std::size_t> taken = {row};
  chance[row] = 1;
  while (taken.size() < kMaxAtOnce) {
    std::size_t best = 0;
    double best_chance = kMinChance;
    for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
      const PassPlan::NodeRow& one = plan.nodes[node];
      const std::size_t below = row_after(static_cast<std::int32_t>(node));
      const double its = chance[row_after(one.parent)] * static_cast<double>(one.confidence);
      if (one.ended || there[below] || chance[below] > 0 || its < best_chance) continue;
      best = below;
      best_chance = its;
    }
    if (best == 0) break;
    chance[best] = best_chance;
    taken.push_back(best);
  }
  return taken;
}

Status DemandedWalk::run(const PassPlan& plan, const VerifySession& session, PassRunner& runner) {
  PassPlan walked = plan;
  for (std::size_t node = 0; node < walked.nodes.size(); ++node) {
    const std::size_t row = row_after(static_cast<std::int32_t>(node));
    walked.nodes[node].ended = !runner.has_logits(row);
  }
  const Open& open = session.opened();
  std::vector<bool> there(plan.nodes.size() + 1, false);
  chosen_.assign(there.size(), std::nullopt);
  Status status;
  session.walk(walked, [&](std::size_t row, Position position) {
    if (!there[row]) {
      const std::vector<std::size_t> rows = rows_ahead(walked, row, there);
      for (const std::size_t one : rows) there[one] = true;
      status = runner.demand(rows);
    }
    if (!status.ok()) return kNoToken;
    const TokenId token = choose(runner.logits(row), open.sampling, open.seed, position);
    chosen_[row] = token;
    return token;
  });
  runner.end_demands();
  return status;
}

}  // namespace outrider

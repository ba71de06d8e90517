// SPDX-License-Identifier: Apache-2.0
#include "common/verify/pass_runner.h"

#include <algorithm>

#include "common/model/row_check.h"
#include "common/sampling/sampling.h"
#include "common/verify/session.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxAtOnce = 4;
// A row more costs about a third of what asking once more does.
constexpr double kMinChance = 0.3;
constexpr TokenId kNoToken = -1;

}  // namespace

void PassRunner::compute(std::span<Rider> riders) {
  OUTRIDER_CHECK(riders.size() == 1 || std::ranges::none_of(riders, &Rider::is_watched));
  rows_.clear();
  std::size_t wanted = 0;
  for (Rider& rider : riders) {
    rider.first_row = rows_.size();
    rider.first_logits = wanted;
    rider.status = append_rows(rider);
    if (!rider.status.ok()) {
      rows_.resize(rider.first_row);
    } else if (rider.plan.decides) {
      wanted += 1 + rider.plan.nodes.size();
    }
  }
  const Rider& first = riders.front();
  output_.tap = first.tap;
  output_.pruner = first.pruner;
  output_.on_layer_done = first.on_layer_done;
  output_.abandoned = riders.size() == 1 ? first.abandoned : nullptr;
  output_.row_logits = nullptr;
  const Status pass = rows_.empty() ? Status() : model_.forward(rows_, output_);
  if (!pass.ok()) output_.row_logits = nullptr;
  for (Rider& rider : riders) {
    if (rider.status.ok()) rider.status = pass;
    if (rider.status.ok() && !demands()) rider.status = check_logits(rider);
    if (!rider.status.ok()) rider.cache->slots().release_all_uncommitted();
  }
}

Status PassRunner::check_logits(const Rider& rider) const {
  const std::size_t wanted = rider.plan.decides ? 1 + rider.plan.nodes.size() : 0;
  for (std::size_t row = 0; row < wanted; ++row) {
    if (!has_logits(rider, row)) continue;
    OUTRIDER_RETURN_IF_ERROR(
        check_logits_of(rows_, row_of(rider, row), output_, rider.first_logits + row));
  }
  return {};
}

Status PassRunner::demand(const Rider& rider, std::span<const std::size_t> rows) {
  std::vector<std::size_t> of_pass(rows.begin(), rows.end());
  for (std::size_t& row : of_pass) row += rider.first_logits;
  OUTRIDER_RETURN_IF_ERROR(output_.row_logits->compute(of_pass, output_));
  for (const std::size_t row : rows) {
    OUTRIDER_RETURN_IF_ERROR(
        check_logits_of(rows_, row_of(rider, row), output_, rider.first_logits + row));
  }
  return {};
}

Status PassRunner::append_rows(const Rider& rider) {
  const PassPlan& plan = rider.plan;
  KvSlots& slots = rider.cache->slots();
  OUTRIDER_CHECK(slots.committed() == plan.position);
  OUTRIDER_CHECK(!plan.tokens.empty());
  Slot above = kRootSlot;
  for (const TokenId token : plan.tokens) {
    OUTRIDER_ASSIGN_OR_RETURN(above, slots.append(above));
    rows_.push_back({.cache = rider.cache, .slot = above, .token = token, .wants_logits = false});
  }
  rows_.back().wants_logits = plan.decides;
  for (const PassPlan::NodeRow& node : plan.nodes) {
    // Parent -1 lands on the last of the tokens.
    const std::size_t parent = row_of(rider, row_after(node.parent));
    OUTRIDER_CHECK(parent < rows_.size());
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, slots.append(rows_[parent].slot));
    rows_.push_back(
        {.cache = rider.cache, .slot = slot, .token = node.token, .wants_logits = true});
  }
  return {};
}

void PassRunner::keep(const Rider& rider, std::int32_t leaf) {
  KvSlots& slots = rider.cache->slots();
  slots.commit(rows_.at(row_of(rider, row_after(leaf))).slot);
  slots.release_all_uncommitted();
}

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

Status LazyLogitsWalk::run(const Rider& rider, const VerifySession& session, PassRunner& runner) {
  PassPlan walked = rider.plan;
  for (std::size_t node = 0; node < walked.nodes.size(); ++node) {
    const std::size_t row = row_after(static_cast<std::int32_t>(node));
    walked.nodes[node].ended = !runner.has_logits(rider, row);
  }
  const Open& open = session.opened();
  std::vector<bool> there(walked.nodes.size() + 1, false);
  chosen_.assign(there.size(), std::nullopt);
  Status status;
  session.walk(walked, [&](std::size_t row, Position position) {
    if (!there[row]) {
      const std::vector<std::size_t> rows = rows_ahead(walked, row, there);
      for (const std::size_t one : rows) there[one] = true;
      status = runner.demand(rider, rows);
    }
    if (!status.ok()) return kNoToken;
    const TokenId token = choose(runner.logits(rider, row), open.sampling, open.seed, position);
    chosen_[row] = token;
    return token;
  });
  return status;
}

}  // namespace outrider

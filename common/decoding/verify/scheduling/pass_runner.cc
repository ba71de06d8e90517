// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/pass_runner.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/thread_pool.h"
#include "common/decoding/verify/session/session.h"
#include "common/engine/model/row_check.h"
#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/row_digest.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxAtOnce = 4;
// A row more costs about a third of what asking once more does.
constexpr double kMinChance = 0.3;
constexpr TokenId kNoToken = -1;

}  // namespace

void PassRunner::place(std::span<Rider> riders) {
  rows_.clear();
  std::size_t wanted = 0;
  for (Rider& rider : riders) {
    rider.first_row = rows_.size();
    rider.first_logits = wanted + rider.plan.scored_rows();
    rider.status = append_rows(rider);
    rider.rows = rows_.size() - rider.first_row;
    if (rider.status.ok()) {
      wanted = rider.first_logits + (rider.plan.decides ? 1 + rider.plan.nodes.size() : 0);
    } else {
      rows_.resize(rider.first_row);
      rider.rows = 0;
      rider.cache->slots().release_all_uncommitted();
    }
  }
}

void PassRunner::compute(std::span<Rider> riders, const PassWatch& watch) {
  output_.tap = watch.tap;
  output_.pruner = watch.pruner;
  output_.row_logits = nullptr;
  // All logits of rows that are scored are wanted.
  const auto scores = [](const Rider& rider) { return rider.plan.scores; };
  output_.on_demand = on_demand_ && std::ranges::none_of(riders, scores);
  listen_to(riders);
  const Status pass = rows_.empty() ? Status() : model_.forward(rows_, output_);
  if (!pass.ok()) output_.row_logits = nullptr;
  for (Rider& rider : riders) {
    if (!rider.status.ok()) continue;
    rider.status = result_of(rider, pass);
    if (!rider.status.ok()) rider.cache->slots().release_all_uncommitted();
  }
}

// To their flags, and the other way round: to the layers that are done.
void PassRunner::listen_to(std::span<const Rider> riders) {
  abandoned_.clear();
  bool all_may_go = true, anybody_asks = false;
  for (const Rider& rider : riders) {
    if (!rider.status.ok()) continue;
    abandoned_.push_back(rider.abandoned);
    all_may_go = all_may_go && rider.abandoned != nullptr;
    anybody_asks = anybody_asks || rider.on_layer_done;
  }
  if (!all_may_go) abandoned_.clear();
  output_.abandoned = abandoned_;
  output_.on_layer_done = {};
  if (!anybody_asks) return;
  output_.on_layer_done = [riders](std::int32_t done, std::int32_t layers) {
    for (const Rider& rider : riders) {
      if (rider.status.ok() && rider.on_layer_done) rider.on_layer_done(done, layers);
    }
  };
}

// pass: how the pass of all ended.
Status PassRunner::result_of(const Rider& rider, const Status& pass) const {
  OUTRIDER_RETURN_IF_ERROR(pass);
  const bool shared = rider.rows < rows_.size();  // else it is the model's to end the pass
  if (shared && rider.abandoned != nullptr && rider.abandoned->load(std::memory_order_relaxed)) {
    return cancelled("the pass was abandoned");
  }
  return demands() ? Status() : check_logits(rider);
}

Status PassRunner::check_logits(const Rider& rider) const {
  const std::size_t scored = rider.plan.scored_rows();
  for (std::size_t index = 0; index < scored; ++index) {
    OUTRIDER_RETURN_IF_ERROR(check_logits_of(rows_, rider.first_row + index, output_,
                                             rider.first_logits - scored + index));
  }
  const std::size_t wanted = rider.plan.decides ? 1 + rider.plan.nodes.size() : 0;
  for (std::size_t row = 0; row < wanted; ++row) {
    if (!has_logits(rider, row) || chosen(rider, row)) continue;
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
  const auto choice_behind = [&](Slot slot) {
    return rider.digests && has_digest(slots.position(slot) + 1) ? nullptr : rider.choice;
  };
  Slot above = kRootSlot;
  for (const TokenId token : plan.tokens) {
    OUTRIDER_ASSIGN_OR_RETURN(above, slots.append(above));
    rows_.push_back(
        {.cache = rider.cache, .slot = above, .token = token, .wants_logits = plan.scores});
  }
  rows_.back().wants_logits = plan.decides || plan.scores;
  rows_.back().choice = choice_behind(above);
  for (const PassPlan::NodeRow& node : plan.nodes) {
    // Parent -1 lands on the last of the tokens.
    const std::size_t parent = row_of(rider, row_after(node.parent));
    OUTRIDER_CHECK(parent < rows_.size());
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, slots.append(rows_[parent].slot));
    rows_.push_back({.cache = rider.cache,
                     .slot = slot,
                     .token = node.token,
                     .wants_logits = true,
                     .choice = choice_behind(slot)});
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

// By the law of choice, behind a row of the rider.
Result<TokenId> ChosenWalk::choose_from(std::span<const float> logits, const Rider& rider,
                                        const VerifySession& session, std::size_t row) {
  const Open& open = session.opened();
  const std::vector<TokenId> path = path_to(rider.plan, row);
  const Position position = session.tree().end() + std::ssize(path);
  const RowAdjuster& adjuster = session.adjuster();
  const std::span<const float> adjusted = adjuster.adjust(logits, path, adjusted_);
  if (adjuster.adjusts() && max_logit(adjusted) == -std::numeric_limits<float>::infinity()) {
    const bool has_form = open.settings.constraint.asks();
    return failed_precondition(std::string("settings: ") + (has_form ? "the constraint, " : "") +
                               "min_tokens and bad_words leave no token for position " +
                               std::to_string(position) + ". Remedy: forbid less");
  }
  const TokenId token = choose(adjusted, open.sampling, open.seed, position);
  if (open.wants_digests && has_digest(position)) readings_.digests.push_back(row_digest(logits));
  if (open.top_logprobs) readings_.walk.push_back(logprobs_of(logits, token, *open.top_logprobs));
  return token;
}

void ChosenWalk::score(const Rider& rider, const VerifySession& session, const PassRunner& runner) {
  const std::span<const TokenId> text = session.tree().text();
  const auto next = static_cast<std::size_t>(rider.plan.position) + 1;
  const std::uint32_t top = session.opened().top_logprobs.value_or(0);
  std::vector<TokenLogprobs>& scored = readings_.scored;
  scored.resize(rider.plan.scored_rows());
  const auto score_some = [&](std::int64_t begin, std::int64_t end) {
    for (auto index = static_cast<std::size_t>(begin); index < static_cast<std::size_t>(end);
         ++index) {
      scored[index] = logprobs_of(runner.scored_logits(rider, index), text[next + index], top);
    }
  };
  if (runner.threads() == nullptr) return score_some(0, std::ssize(scored));
  runner.threads()->parallel_for(std::ssize(scored), 1, score_some);
}

Status ChosenWalk::run(const Rider& rider, const VerifySession& session, const PassRunner& runner) {
  chosen_.assign(rider.plan.nodes.size() + 1, std::nullopt);
  Status status;
  session.walk(rider.plan, [&](std::size_t row, Position) {
    chosen_[row] = runner.chosen(rider, row);
    if (chosen_[row]) return *chosen_[row];
    const Result<TokenId> token = choose_from(runner.logits(rider, row), rider, session, row);
    status = token.status();
    if (!status.ok()) return kNoToken;
    chosen_[row] = *token;
    return *token;
  });
  return status;
}

Status ChosenWalk::run_on_demand(const Rider& rider, const VerifySession& session,
                                 PassRunner& runner) {
  std::vector<bool> there(rider.plan.nodes.size() + 1, false);
  chosen_.assign(there.size(), std::nullopt);
  Status status;
  session.walk(rider.plan, [&](std::size_t row, Position) {
    if (!there[row]) {
      const std::vector<std::size_t> rows = rows_ahead(rider.plan, row, there);
      for (const std::size_t one : rows) there[one] = true;
      status = runner.demand(rider, rows);
    }
    if (!status.ok()) return kNoToken;
    const Result<TokenId> token = choose_from(runner.logits(rider, row), rider, session, row);
    status = token.status();
    if (!status.ok()) return kNoToken;
    chosen_[row] = *token;
    return *token;
  });
  return status;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/break_even.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "bench/harness/law.h"
#include "common/base/json_record.h"

namespace outrider {
namespace {

constexpr double kPays = 0.99;

// In the passes that verified drafted tokens; the other passes yield one token each.
double tokens_of_a_round(double tokens_per_pass, double rounds_per_pass) {
  return (tokens_per_pass - (1 - rounds_per_pass)) / rounds_per_pass;
}

const CostedCell* plain_beside(const CostedCell& cell, std::span<const CostedCell> cells,
                               const std::string& plain) {
  const auto found = std::ranges::find_if(cells, [&](const CostedCell& one) {
    return one.variant == plain && one.setting == cell.setting;
  });
  return found == cells.end() ? nullptr : &*found;
}

struct BesidePlain {
  const CostedCell* cell = nullptr;
  const CostedCell* plain = nullptr;
};

std::optional<KindBreakEven> kind_of(CostKind kind, std::span<const BesidePlain> pairs) {
  std::vector<CostRatio> ratios;
  std::vector<double> needed;
  for (const BesidePlain& pair : pairs) {
    const auto& cost = pair.cell->cost.of(kind);
    const auto& plain = pair.plain->cost.of(kind);
    if (!cost || !plain || plain->total() <= 0) continue;
    ratios.push_back({pair.cell->round_trip_ms, cost->total() / plain->total()});
    const auto tokens = needed_tokens(*cost, pair.cell->use, *plain);
    if (tokens && tokens->acceptance) needed.push_back(*tokens->acceptance);
  }
  if (ratios.empty()) return std::nullopt;
  const bool always_known = needed.size() == ratios.size();
  KindBreakEven found{
      .round_trips = pays_up_to(std::move(ratios)), .least_needed = {}, .most_needed = {}};
  if (always_known) {
    const auto [least, most] = std::ranges::minmax(needed);
    found.least_needed = least;
    found.most_needed = most;
  }
  return found;
}

BreakEven break_even_of(std::span<const BesidePlain> pairs) {
  BreakEven found{.device = pairs.front().cell->device, .variant = pairs.front().cell->variant};
  double sum = 0, count = 0;
  for (const BesidePlain& pair : pairs) {
    const auto acceptance = acceptance_now(pair.cell->use);
    if (!acceptance) continue;
    sum += *acceptance;
    ++count;
  }
  if (count > 0) found.acceptance = sum / count;
  for (const auto& [kind, name] : enum_names<CostKind>) {
    found.kinds.at(static_cast<std::size_t>(kind)) = kind_of(kind, pairs);
  }
  return found;
}

}  // namespace

std::optional<NeededTokens> needed_tokens(const KindCost& cost, const AnswerUse& use,
                                          const KindCost& plain) {
  if (use.passes <= 0 || cost.total() + plain.total() <= 0) return std::nullopt;
  const double left = plain.total() - cost.fixed;  // what the passes of one token may cost
  const double a_pass = cost.by_pass * use.output_tokens / use.passes;
  if (left <= 0)
    return NeededTokens{.tokens_per_pass = a_pass > 0 ? HUGE_VAL : 1, .acceptance = {}};
  NeededTokens needed{.tokens_per_pass = a_pass / left, .acceptance = {}};
  if (use.rounds <= 0) return needed;
  const double gamma = use.drafted / use.rounds;
  const double tokens = tokens_of_a_round(needed.tokens_per_pass, use.rounds / use.passes);
  if (tokens <= gamma + 1) needed.acceptance = acceptance_of_tau(tokens, gamma);
  return needed;
}

std::optional<double> acceptance_now(const AnswerUse& use) {
  if (use.rounds <= 0 || use.passes <= 0 || use.drafted <= 0) return std::nullopt;
  const double tokens = tokens_of_a_round(use.output_tokens / use.passes, use.rounds / use.passes);
  return acceptance_of_tau(tokens, use.drafted / use.rounds);
}

std::optional<double> break_even_round_trip_ms(double cost, double plain, double round_trip_ms,
                                               double per_ms) {
  if (per_ms <= 0) return std::nullopt;
  const double longest = round_trip_ms + (plain - cost) / per_ms;
  return longest < 0 ? std::nullopt : std::optional(longest);
}

PaysUpTo pays_up_to(std::vector<CostRatio> ratios) {
  std::ranges::sort(ratios, {}, &CostRatio::round_trip_ms);
  const auto pays = [](const CostRatio& one) { return one.over_plain < kPays; };
  PaysUpTo found{.pays = static_cast<std::size_t>(std::ranges::count_if(ratios, pays)),
                 .of = ratios.size(),
                 .round_trip_ms = {}};
  const auto stops = std::ranges::find_if_not(ratios, pays);
  const auto first = static_cast<std::size_t>(stops - ratios.begin());
  if (first == 0 || stops == ratios.end() || first != found.pays) return found;
  const CostRatio &last = ratios[first - 1], &next = *stops;
  const double share = (kPays - last.over_plain) / (next.over_plain - last.over_plain);
  found.round_trip_ms = last.round_trip_ms + share * (next.round_trip_ms - last.round_trip_ms);
  return found;
}

std::string to_string(const PaysUpTo& pays) {
  if (pays.round_trip_ms) return fmt::format("up to {:.0f} ms", *pays.round_trip_ms);
  if (pays.pays == pays.of) return fmt::format("at all {}", pays.of);
  if (pays.pays == 0) return fmt::format("at none of {}", pays.of);
  return fmt::format("at {} of {}", pays.pays, pays.of);
}

std::string to_string(const KindBreakEven& kind) {
  std::string text = to_string(kind.round_trips);
  if (!kind.least_needed) return text + "; no acceptance suffices everywhere";
  if (*kind.most_needed <= 0.005) return text + "; any acceptance";
  text += fmt::format("; from {:.2f}", *kind.least_needed);
  if (*kind.most_needed - *kind.least_needed >= 0.01) {
    text += fmt::format(" to {:.2f}", *kind.most_needed);
  }
  return text;
}

Json to_json(const BreakEven& found) {
  Json json = {{"device", found.device},
               {"variant", found.variant},
               {"acceptance", write_json(found.acceptance)}};
  for (const auto& [kind, name] : enum_names<CostKind>) {
    json[name] = write_json(found.kinds.at(static_cast<std::size_t>(kind)));
  }
  return json;
}

std::vector<BreakEven> break_evens(std::span<const CostedCell> cells, const std::string& plain) {
  std::vector<std::vector<BesidePlain>> groups;
  for (const CostedCell& cell : cells) {
    const CostedCell* beside = plain_beside(cell, cells, plain);
    const bool drafts = cell.place == DraftPlace::kEdge && cell.variant != plain;
    if (!drafts || beside == nullptr) continue;
    const auto same = std::ranges::find_if(groups, [&](const std::vector<BesidePlain>& group) {
      return group.front().cell->device == cell.device &&
             group.front().cell->variant == cell.variant;
    });
    if (same == groups.end()) {
      groups.push_back({{&cell, beside}});
    } else {
      same->push_back({&cell, beside});
    }
  }
  std::vector<BreakEven> found;
  for (const std::vector<BesidePlain>& group : groups) found.push_back(break_even_of(group));
  return found;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/choose_exits.h"

#include <algorithm>

namespace outrider {
namespace {

double ready(std::int32_t layer, const ChoiceOptions& options) {
  const double left = 1 - static_cast<double>(layer) / options.num_layers;
  return std::min(1.0, left / options.chain_share);
}

// The set with one place added or taken away.
std::vector<std::size_t> toggled(std::vector<std::size_t> chosen, std::size_t place) {
  const auto at = std::lower_bound(chosen.begin(), chosen.end(), place);
  if (at != chosen.end() && *at == place) {
    chosen.erase(at);
  } else {
    chosen.insert(at, place);
  }
  return chosen;
}

}  // namespace

double worth_of(std::span<const ExitFacts> exits, std::span<const std::size_t> chosen,
                const ChoiceOptions& options) {
  if (chosen.empty()) return 0;
  const std::size_t passes = exits[chosen.front()].right.size();
  double worth = 0;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const auto first = std::find_if(chosen.begin(), chosen.end(),
                                    [&](std::size_t place) { return exits[place].right[pass]; });
    if (first != chosen.end()) worth += ready(exits[*first].layer, options);
  }
  worth /= static_cast<double>(std::max<std::size_t>(1, passes));
  for (const std::size_t place : chosen) worth -= exits[place].cost;
  return worth;
}

std::vector<std::int32_t> choose_exits(std::span<const ExitFacts> exits,
                                       const ChoiceOptions& options) {
  std::vector<std::size_t> best;
  double best_worth = 0;
  while (true) {
    std::vector<std::size_t> next = best;
    double next_worth = best_worth;
    for (std::size_t place = 0; place < exits.size(); ++place) {
      std::vector<std::size_t> tried = toggled(best, place);
      const double worth = worth_of(exits, tried, options);
      if (worth <= next_worth) continue;
      next = std::move(tried);
      next_worth = worth;
    }
    if (next_worth <= best_worth) break;
    best = std::move(next);
    best_worth = next_worth;
  }
  std::vector<std::int32_t> layers;
  for (const std::size_t place : best) layers.push_back(exits[place].layer);
  return layers;
}

}  // namespace outrider

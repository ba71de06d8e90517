// SPDX-License-Identifier: Apache-2.0
#include "bench/link/probe/sample_quantile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace outrider {
namespace {

struct Ranks {
  std::size_t low = 0;
  std::size_t value = 0;
  std::size_t high = 0;
};

// How many samples lie below a quantile is binomially distributed, near enough normally.
Ranks ranks_of(std::size_t count, double share) {
  constexpr double kDeviations = 1.96;
  const double n = static_cast<double>(count), last = n - 1;
  const double half = kDeviations * std::sqrt(n * share * (1 - share));
  const auto rank = [last](double at) {
    return static_cast<std::size_t>(std::round(std::clamp(at, 0.0, last)));
  };
  return {rank(share * last - half), rank(share * last), rank(share * last + half)};
}

}  // namespace

Estimate sample_quantile(std::vector<double> samples, double share) {
  OUTRIDER_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const Ranks ranks = ranks_of(samples.size(), share);
  return {samples[ranks.value], Interval{samples[ranks.low], samples[ranks.high]}};
}

Estimate counted_quantile(std::span<const std::uint64_t> counts, double step, double share) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  OUTRIDER_CHECK(total > 0);
  const Ranks ranks = ranks_of(total, share);
  const auto at = [&](std::size_t rank) {
    std::uint64_t passed = 0;
    std::size_t i = 0;
    while (passed + counts[i] <= rank) passed += counts[i++];
    return static_cast<double>(i + 1) * step;
  };
  return {at(ranks.value), Interval{at(ranks.low), at(ranks.high)}};
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/report/spread.h"

#include <cmath>

namespace outrider {

std::optional<Spread> spread_of(const std::vector<double>& samples) {
  if (samples.empty()) return std::nullopt;
  Spread spread;
  spread.count = samples.size();
  const auto mean_at = [&](std::span<const std::size_t> indices) -> std::optional<double> {
    double sum = 0;
    for (const std::size_t index : indices) sum += samples[index];
    return sum / static_cast<double>(indices.size());
  };
  spread.mean = *bootstrap(samples.size(), mean_at);
  double squares = 0;
  for (const double sample : samples) squares += std::pow(sample - spread.mean.value, 2);
  if (samples.size() > 1) {
    spread.deviation = std::sqrt(squares / static_cast<double>(samples.size() - 1));
  }
  spread.p50 = quantile(samples, 0.5);
  spread.p90 = quantile(samples, 0.9);
  spread.p95 = quantile(samples, 0.95);
  spread.p99 = quantile(samples, 0.99);
  return spread;
}

}  // namespace outrider

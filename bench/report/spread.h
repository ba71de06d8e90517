// One figure over requests: its mean and how it spreads.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bench/harness/statistics.h"

namespace outrider {

struct Spread {
  std::size_t count = 0;
  Estimate mean;
  double deviation = 0;  // standard, of the sample
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

// Nothing without samples.
std::optional<Spread> spread_of(const std::vector<double>& samples);

}  // namespace outrider

// Quantiles with 95 % intervals by order statistics: no resampling, any number of samples.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/harness/statistics.h"

namespace outrider {

// samples: not empty.
Estimate sample_quantile(std::vector<double> samples, double share);

// Of samples that were counted: counts[i] lie in [i, i + 1) steps and are taken as the upper end.
// Some count is not 0.
Estimate counted_quantile(std::span<const std::uint64_t> counts, double step, double share);

}  // namespace outrider

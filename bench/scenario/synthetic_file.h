// Acceptance in place of models: what a paper prints of a data set, as TOML.
//
//   [[data_set]]
//   name = "CNN/DM"
//   tau = 1.95          # tokens per round
//   gamma = 4           # drafted tokens of a round with which that was measured; 4
//   miss_rate = 0.294   # optional: rounds that were not there when the verdict came
//   mean_exit = 15      # with miss_rate: the mean layer of the exits that named the others
//
// Thread rule: pure, apart from reading. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/harness/grid_plan.h"
#include "common/base/status.h"

namespace outrider {

// INVALID_ARGUMENT, with the line, for what is no TOML, an unknown key, a value out of bounds, a
// name that stands twice, no data set at all; NOT_FOUND.
Result<std::vector<SyntheticAcceptance>> read_synthetic_acceptance(const std::string& path);

}  // namespace outrider

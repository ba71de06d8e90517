// What early exits add to a pass of a model on this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/check.h"

namespace outrider {

struct ExitsOptions {
  std::string model, adapters;
  std::string dtype = "auto";
  std::vector<double> depths = {0.5, 0.75};
  std::int32_t shortlist = 8192;
  int threads = 2;
  int rows = 5;
  int passes = 40;
};

// figures["pass_ratio"]: how many times as long a pass with exits takes.
Result<CheckOutcome> measure_exits(const ExitsOptions& options);

}  // namespace outrider

// How long a draft's step takes beside a target's pass of one row, on this machine.
//
// Thread rule: one thread calls. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/harness/statistics.h"
#include "common/base/status.h"

namespace outrider {

struct StepShareOptions {
  std::string draft, target;
  std::string draft_dtype = "auto", dtype = "auto";
  int threads = 2;  // of either model
};

// The draft's median over the target's; both take turns.
Result<Estimate> measure_step_share(const StepShareOptions& options);

}  // namespace outrider

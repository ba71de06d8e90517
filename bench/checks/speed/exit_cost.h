// The time that early exits add to a pass of a model on this machine. Two sessions of one scheduler
// decode in turn with the same number of rows per pass. One of them has exits, whose reports leave
// during the pass. Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bench/harness/grid_flags.h"
#include "common/base/status.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/engine/model/model.h"

namespace outrider {

struct TimedPasses {
  int rows = 5;
  int passes = 40;  // of each kind
};

struct ExitTimes {
  std::vector<double> with_ms, without_ms;  // of the passes
  std::uint32_t reports = 0;
};

ExitTimes time_exits(Model& model, ExitHeads& exits, const TimedPasses& passes);

// How many times as long a pass of this target takes with its exits: at least 1, and 1 if it has
// none. Prints it on stderr. INVALID_ARGUMENT for devices other than the CPU, which is timed here;
// errors of loading target and exits.
Result<double> measure_exit_cost(const GridFlags& flags, int threads);

}  // namespace outrider

// Runs work of unknown cost in a child process, where it is ended when it takes too long or too
// much memory, and where a crash is a refusal.
//
// Thread rule: from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct TrialBounds {
  // Processor time; five times as long by the clock, on a machine that is busy.
  Duration time = std::chrono::seconds(2);
  std::size_t bytes = std::size_t{256} << 20;  // that the work allocates, its result included
};

// The work's result, from a fork of this process in which only the calling thread exists: the
// work must take no lock that another thread may hold. RESOURCE_EXHAUSTED where it is ended, where
// it crashed, or where no process can be made.
Result<std::string> compute_in_child(const std::function<Result<std::string>()>& work,
                                     const TrialBounds& bounds);

}  // namespace outrider

// Runs work of unknown cost in a child process first, where it is ended when it takes too long or
// too much memory: what it took there it will take here.
//
// Thread rule: from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct TrialBounds {
  // Processor time; five times as long by the clock, on a machine that is busy.
  Duration time = std::chrono::seconds(2);
  std::size_t bytes = std::size_t{256} << 20;  // that the work allocates
};

// The work's own status, from a fork of this process in which only the calling thread exists: the
// work must take no lock that another thread may hold. RESOURCE_EXHAUSTED where it is ended, where
// it crashed, or where no process can be made.
Status try_in_child(const std::function<Status()>& work, const TrialBounds& bounds);

}  // namespace outrider

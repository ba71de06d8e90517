// SPDX-License-Identifier: Apache-2.0
#include "common/base/clock.h"

#include <thread>

namespace outrider {

TimePoint SystemClock::now() const {
  return std::chrono::steady_clock::now();
}

void SystemClock::sleep_until(TimePoint when) {
  std::this_thread::sleep_until(when);
}

}  // namespace outrider

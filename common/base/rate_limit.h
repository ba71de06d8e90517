// Lets at most one event per interval through and counts the rest, so that a flood of bad input
// costs one log line. Time is an argument (DESIGN law L4).
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

class RateLimit final {
 public:
  explicit RateLimit(Duration interval) : interval_(interval) {}

  // If this event may be logged: how many were held back since the last one that was.
  std::optional<std::uint64_t> admit(TimePoint now) {
    const MutexLock lock(mu_);
    if (last_ && now - *last_ < interval_) {
      ++held_back_;
      return std::nullopt;
    }
    last_ = now;
    return std::exchange(held_back_, 0);
  }

 private:
  const Duration interval_;
  Mutex mu_;
  std::optional<TimePoint> last_ OUTRIDER_GUARDED_BY(mu_);
  std::uint64_t held_back_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

}  // namespace outrider

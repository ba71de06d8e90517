// Protection against floods. RateLimit lets one event per interval through and counts the others,
// so that bad input costs one log line. spread_delay() keeps refused clients from returning all at
// once. Time is an argument. Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
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

  // If this event may be logged: how many were suppressed since the last one.
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

// How long the `number`-th refused client shall wait, for a nominal `delay`: between one and one
// and a half times as long. Consecutive numbers lie far apart and fill that range evenly (the Weyl
// sequence of the golden ratio). Pure.
inline Duration spread_delay(Duration delay, std::uint64_t number) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const double fraction = static_cast<double>(number * kGolden >> 11) * 0x1p-53;
  const double more = fraction / 2 * static_cast<double>(delay.count());
  return delay + Duration(static_cast<Duration::rep>(more));
}

}  // namespace outrider

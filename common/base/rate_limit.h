// Against floods: at most one event per interval goes through and the rest is counted, so that bad
// input costs one log line; and who is told to come back later does not come with all others.
// Time is an argument.
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

// How long the `number`-th of those who are told to come back in `delay` shall stay away: as long,
// and up to half as long again. Numbers that follow each other lie far apart and fill that time
// evenly (the Weyl sequence of the golden ratio). Pure.
inline Duration spread_delay(Duration delay, std::uint64_t number) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const double fraction = static_cast<double>(number * kGolden >> 11) * 0x1p-53;
  const double more = fraction / 2 * static_cast<double>(delay.count());
  return delay + Duration(static_cast<Duration::rep>(more));
}

}  // namespace outrider

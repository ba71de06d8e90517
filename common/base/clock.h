// Time as an interface, so that the code that decides can run under a fake clock.
//
// Thread rule: SystemClock is thread safe; ManualClock belongs to one thread (a simulation).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace outrider {

// Monotonic time; comparable within one process only.
using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  // Blocks until now() >= when.
  virtual void sleep_until(TimePoint when) = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override;
  void sleep_until(TimePoint when) override;
};

// Moves only when it is set. sleep_until() moves it, never blocks.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void sleep_until(TimePoint when) override { now_ = when > now_ ? when : now_; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};
// clang-format off
inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline double to_ms(Duration d) { return to_seconds(d) * 1e3; }
inline Duration from_ms(double ms) {
  return std::chrono::round<Duration>(std::chrono::duration<double, std::milli>(ms));
}
// clang-format on
}  // namespace outrider

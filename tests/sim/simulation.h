// A world without threads: a clock that moves from event to event, and seeded chance. The same seed
// gives the same run on every machine.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "common/base/clock.h"

namespace outrider {

// std::mt19937_64 is the same everywhere; the standard's distributions are not.
class SimRandom final {
 public:
  explicit SimRandom(std::uint64_t seed) : engine_(seed) {}

  // 0 <= result < n; n > 0.
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  // low <= result <= high.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  Duration between(Duration low, Duration high) {
    return Duration{between(low.count(), high.count())};
  }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < p; }

 private:
  std::mt19937_64 engine_;
};

class Simulation final {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {}

  TimePoint now() const { return clock_.now(); }
  ManualClock& clock() { return clock_; }
  SimRandom& random() { return random_; }

  // Runs `event` at that time, or now if it is past; events of one time run in the order given.
  void at(TimePoint when, std::function<void()> event) {
    events_.emplace(std::max(when, now()), std::move(event));
  }
  void after(Duration delay, std::function<void()> event) { at(now() + delay, std::move(event)); }

  // Moves on to the next event. False if there is none before `until`.
  bool step(TimePoint until) {
    if (events_.empty() || events_.begin()->first > until) return false;
    clock_.sleep_until(events_.begin()->first);
    const std::function<void()> event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    event();
    return true;
  }

 private:
  ManualClock clock_;
  SimRandom random_;
  std::multimap<TimePoint, std::function<void()>> events_;
};

}  // namespace outrider

// The event loop of a simulation: a clock that advances from event to event, and seeded randomness.
// It has no threads, so the same seed gives the same run on every machine.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/base/clock.h"
#include "emulation/random/random.h"

namespace outrider {

class Simulation final {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {}

  TimePoint now() const { return clock_.now(); }
  ManualClock& clock() { return clock_; }
  SeededRandom& random() { return random_; }

  // Runs `event` at that time, or now if it is past; events of one time run in the order added.
  void at(TimePoint when, std::function<void()> event) {
    events_.emplace(std::max(when, now()), std::move(event));
  }
  void after(Duration delay, std::function<void()> event) { at(now() + delay, std::move(event)); }

  // Advances to the next event. False if there is none before `until`.
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
  SeededRandom random_;
  std::multimap<TimePoint, std::function<void()>> events_;
};

}  // namespace outrider

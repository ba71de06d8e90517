// Seeded chance for simulations: the same numbers on every machine.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>

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

}  // namespace outrider

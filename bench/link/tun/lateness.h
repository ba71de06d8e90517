// How late packets were written, counted in steps of 10 us.
//
// Thread rule: add() from one thread, the rest from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

class Lateness final {
 public:
  static constexpr Duration kStep = std::chrono::microseconds(10);
  static constexpr std::size_t kSteps = 10'000;  // the last one holds what is later

  void add(Duration late) {
    const auto step = static_cast<std::size_t>(std::max<Duration::rep>(late / kStep, 0));
    counts_[std::min(step, kSteps - 1)].fetch_add(1, std::memory_order_relaxed);
  }

  std::vector<std::uint64_t> counts() const { return {counts_.begin(), counts_.end()}; }

 private:
  std::array<std::atomic<std::uint64_t>, kSteps> counts_{};
};

}  // namespace outrider

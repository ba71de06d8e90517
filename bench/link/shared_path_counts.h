// The counts of a path that its link's thread publishes and others read.
//
// Thread rule: publish() from one thread, read() from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "bench/link/path/path_counts.h"

namespace outrider {

class SharedPathCounts final {
 public:
  void publish(const PathCounts& counts) {
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      values_[i].store(counts.*kFields[i].second, std::memory_order_relaxed);
    }
  }

  // Each figure as it was last published; not all at one moment.
  PathCounts read() const {
    PathCounts counts;
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      counts.*kFields[i].second = values_[i].load(std::memory_order_relaxed);
    }
    return counts;
  }

 private:
  static constexpr auto kFields = PathCounts::fields();

  std::array<std::atomic<std::uint64_t>, kFields.size()> values_{};
};

}  // namespace outrider

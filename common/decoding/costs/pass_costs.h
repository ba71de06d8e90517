// Recently measured durations of verifying passes. An edge's controller gets them at the start and
// need not measure them by slow rounds.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/decoding/costs/row_curve.h"

namespace outrider {

struct PassCosts {
  static constexpr std::size_t kMaxPoints = 16;

  struct Point {
    std::uint32_t rows = 1;
    Duration time{0};

    friend bool operator==(const Point&, const Point&) = default;
  };

  std::vector<Point> points = {};  // rows rising; empty: not known, or not disclosed
  std::uint32_t exits_percent =
      0;  // extra time of a pass with early exits, in percent of a pass without

  friend bool operator==(const PassCosts&, const PassCosts&) = default;
};

// Measures PassCosts: means over recent passes by number of rows, with and without early exits.
// Owned by the scheduler.
class PassCostBook final {
 public:
  // Adds a verifying pass. Prefills and passes beyond the largest bucket are not counted. A pass
  // that took over twice as long as others of more rows, or as its rows in passes of fewer, was
  // held up by something else, and counts as twice: or what it seems to cost would keep away those
  // that could show otherwise.
  void add(std::size_t rows, bool exits, Duration took);

  // For the row counts that occurred. Where no pass ran without exits, the time with exits stands
  // in.
  PassCosts costs() const;
  // The same times without the exits' part, in seconds, at whole rows; each bucket counts alike.
  RowCurve curve() const;

 private:
  // The largest row count of each bucket.
  static constexpr std::array<std::size_t, 16> kBuckets = {1,  2,  3,  4,  5,  6,   7,   8,
                                                           12, 16, 32, 64, 96, 128, 256, 512};

  std::vector<RowTime> means() const;

  std::array<RowTime, kBuckets.size()> plain_{};
  std::array<RowTime, kBuckets.size()> with_exits_{};
};

}  // namespace outrider

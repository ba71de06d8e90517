// What verifying passes take at a verifier, as it has measured them lately: an edge's controller
// need not find it out by losing.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

struct PassCosts {
  static constexpr std::size_t kMaxPoints = 16;

  struct Point {
    std::uint32_t rows = 1;
    Duration time{0};

    friend bool operator==(const Point&, const Point&) = default;
  };

  std::vector<Point> points = {};   // rows rising; empty: not known, or not told
  std::uint32_t exits_percent = 0;  // what early exits add to a pass, of its time

  friend bool operator==(const PassCosts&, const PassCosts&) = default;
};

}  // namespace outrider

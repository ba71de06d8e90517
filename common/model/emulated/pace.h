// How long a pass takes on another device, as a function of its number of rows.
//
//   *PaceCurve::parse("83.5")                  // every pass takes 83.5 ms
//   *PaceCurve::parse("1:330,5:354,33:420")    // ms at 1, 5 and 33 rows, straight lines between
//
// Outside the points a pass takes what the nearest one takes: a device that was not measured there
// is not guessed at. Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

class PaceCurve final {
 public:
  struct Point {
    std::int64_t rows = 1;
    double ms = 0;
  };

  // A pass takes no time of its own.
  PaceCurve() = default;

  // INVALID_ARGUMENT unless rows are at least 1 and ascend, and each time is from 0 ms to an hour.
  static Result<PaceCurve> create(std::vector<Point> points);

  // "MS", or "ROWS:MS,ROWS:MS,..". Errors name the text and what was expected.
  static Result<PaceCurve> parse(std::string_view text);

  bool empty() const { return points_.empty(); }
  const std::vector<Point>& points() const { return points_; }

  // Whether the pace says how long a pass of so many rows takes. From the last of several points on
  // it goes on level, and emulates no device.
  bool covers(std::int64_t rows) const {
    return points_.size() == 1 || (!points_.empty() && rows < points_.back().rows);
  }

  // 0 if empty.
  double ms(std::int64_t rows) const;

  // All times multiplied.
  PaceCurve scaled(double factor) const;

  // As parse() reads it; "" if empty.
  std::string to_string() const;

 private:
  std::vector<Point> points_;
};

}  // namespace outrider

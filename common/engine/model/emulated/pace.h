// The time of a pass on another device, as a function of its number of rows.
//
//   *PaceCurve::parse("83.5")                  // every pass takes 83.5 ms
//   *PaceCurve::parse("1:330,5:354,33:420")    // ms at 1, 5 and 33 rows, straight lines between
//
// Outside the points the time is that of the nearest point; there is no extrapolation. Thread rule:
// a value. SPDX-License-Identifier: Apache-2.0
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

  // Passes are not stretched.
  PaceCurve() = default;

  // INVALID_ARGUMENT unless rows are at least 1 and ascend, and each time is from 0 ms to an hour.
  static Result<PaceCurve> create(std::vector<Point> points);

  // "MS", or "ROWS:MS,ROWS:MS,..". Errors name the text and what was expected.
  static Result<PaceCurve> parse(std::string_view text);

  bool empty() const { return points_.empty(); }
  const std::vector<Point>& points() const { return points_; }

  // Whether so many rows are within the measured points. Beyond the last of several points the
  // curve is constant and emulates no device.
  bool covers(std::int64_t rows) const {
    return points_.size() == 1 || (!points_.empty() && rows < points_.back().rows);
  }

  // 0 if empty.
  double ms(std::int64_t rows) const;

  // The curve with all times multiplied.
  PaceCurve scaled(double factor) const;

  // The form that parse() reads; "" if empty.
  std::string to_string() const;

 private:
  std::vector<Point> points_;
};

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/emulated/pace.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

namespace outrider {
namespace {

// No device takes an hour for a pass; beyond that from_ms() could overflow.
constexpr double kMaxMs = 3.6e6;

template <typename T>
bool read_number(std::string_view text, T& value) {
  const std::from_chars_result read =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

// The shortest text that reads back as the same number.
std::string shortest(double value) {
  char text[32];
  const std::to_chars_result written = std::to_chars(text, text + sizeof text, value);
  return std::string(text, written.ptr);
}

}  // namespace

Result<PaceCurve> PaceCurve::create(std::vector<Point> points) {
  std::int64_t last = 0;
  for (const Point& point : points) {
    if (point.rows <= last) {
      return invalid_argument("pace at " + std::to_string(point.rows) +
                              " rows: rows must be at least 1 and ascend");
    }
    if (!(point.ms >= 0 && point.ms <= kMaxMs)) {
      return invalid_argument("pace of " + shortest(point.ms) + " ms: must be from 0 to " +
                              shortest(kMaxMs));
    }
    last = point.rows;
  }
  PaceCurve curve;
  curve.points_ = std::move(points);
  return curve;
}

Result<PaceCurve> PaceCurve::parse(std::string_view text) {
  std::vector<Point> points;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    Point point;
    const std::size_t colon = part.find(':');
    const bool only_ms = colon == std::string_view::npos && end == text.size() && points.empty();
    const bool sound = only_ms ? read_number(part, point.ms)
                               : colon != std::string_view::npos &&
                                     read_number(part.substr(0, colon), point.rows) &&
                                     read_number(part.substr(colon + 1), point.ms);
    if (!sound) {
      return invalid_argument("pace '" + std::string(text) +
                              "': expected MS, or ROWS:MS,ROWS:MS,..");
    }
    points.push_back(point);
  }
  return create(std::move(points));
}

double PaceCurve::ms(std::int64_t rows) const {
  if (points_.empty()) return 0;
  const auto above =
      std::lower_bound(points_.begin(), points_.end(), rows,
                       [](const Point& point, std::int64_t at) { return point.rows < at; });
  if (above == points_.begin()) return points_.front().ms;
  if (above == points_.end()) return points_.back().ms;
  const Point& below = *(above - 1);
  const double share =
      static_cast<double>(rows - below.rows) / static_cast<double>(above->rows - below.rows);
  return below.ms + share * (above->ms - below.ms);
}

PaceCurve PaceCurve::scaled(double factor) const {
  PaceCurve curve = *this;
  for (Point& point : curve.points_) point.ms *= factor;
  return curve;
}

std::string PaceCurve::to_string() const {
  if (points_.size() == 1) return shortest(points_.front().ms);
  std::string text;
  for (const Point& point : points_) {
    if (!text.empty()) text += ',';
    text += std::to_string(point.rows) + ":" + shortest(point.ms);
  }
  return text;
}

}  // namespace outrider

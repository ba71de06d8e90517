// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/tree_memory.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace outrider {
namespace {

// The last so many passes of a shape count.
constexpr double kMemory = 12;

// The time of a pass also counts for a shape whose rows differ by less than this share, or by one.
constexpr double kNear = 0.25;

// Where one time is known nothing is known of slopes: a further row is then taken to cost this
// share of it.
constexpr double kRowShare = 0.01;

// The line through the means of nearly as many rows, at that of `at`; nearer ones count more.
double line_at(std::span<const RowTime> means, const RowTime& at) {
  const double width = 1 + at.rows * kNear;
  double weight = 0, x = 0, xx = 0, y = 0, xy = 0;
  for (const RowTime& mean : means) {
    const double off = mean.rows - at.rows;
    const double counts = mean.weight * std::max(0.0, 1 - std::abs(off) / width);
    weight += counts;
    x += counts * off;
    xx += counts * off * off;
    y += counts * mean.time;
    xy += counts * off * mean.time;
  }
  const double spread = weight * xx - x * x;
  return spread > 1e-6 * weight * weight ? (xx * y - x * xy) / spread : y / weight;
}

// One slow pass would otherwise keep trees from ever having so many rows again.
std::vector<RowTime> smoothed(const std::vector<RowTime>& means) {
  std::vector<RowTime> smooth = means;
  for (RowTime& mean : smooth) mean.time = line_at(means, mean);
  return smooth;
}

}  // namespace

void LatencyProfile::observe(std::size_t rows, std::size_t leaves, double ms) {
  if (rows < 1 || rows > kMaxRows || leaves > rows || !(ms > 0) || !std::isfinite(ms)) return;
  RowTime& shape = shapes_[static_cast<std::int32_t>(rows)][static_cast<std::int32_t>(leaves)];
  shape.add(static_cast<double>(rows), ms, kMemory);
  fit();
}

bool LatencyProfile::restore(const ShapeTime& stored) {
  const auto [rows, leaves, ms, weight] = stored;
  if (rows < 1 || rows > kMaxRows || leaves < 0 || leaves > rows) return false;
  if (!(ms > 0) || !std::isfinite(ms) || !(weight > 0)) return false;
  shapes_[rows][leaves] = {static_cast<double>(rows), ms, std::min(weight, kMemory)};
  fit();
  return true;
}

std::vector<ShapeTime> LatencyProfile::shapes() const {
  std::vector<ShapeTime> shapes;
  for (const auto& [rows, by_leaves] : shapes_) {
    for (const auto& [leaves, mean] : by_leaves) {
      shapes.push_back({rows, leaves, mean.time, mean.weight});
    }
  }
  return shapes;
}

void LatencyProfile::fit() {
  std::vector<RowTime> means;
  std::vector<double> mean_leaves;
  double across = 0, square = 0;  // of times over leaves, within the same number of rows
  for (const auto& [rows, by_leaves] : shapes_) {
    double weight = 0, leaves = 0, time = 0;
    for (const auto& [count, mean] : by_leaves) {
      weight += mean.weight;
      leaves += count * mean.weight;
      time += mean.time * mean.weight;
    }
    means.push_back({static_cast<double>(rows), time / weight, weight});
    mean_leaves.push_back(leaves / weight);
    for (const auto& [count, mean] : by_leaves) {
      const double off = count - mean_leaves.back();
      across += mean.weight * off * (mean.time - means.back().time);
      square += mean.weight * off * off;
    }
  }
  leaf_ms_ = square > 0 ? std::max(0.0, across / square) : 0;
  for (std::size_t i = 0; i < means.size(); ++i) {
    means[i].time -= leaf_ms_ * std::max(0.0, mean_leaves[i] - 1);
  }
  by_rows_ = RowCurve(smoothed(means));
}

// The steeper of the last piece and of the whole.
double LatencyProfile::slope_beyond() const {
  const std::span<const RowCurve::Pool> pools = by_rows_.pools();
  const RowCurve::Pool &first = pools.front(), &last = pools.back();
  if (pools.size() == 1) return last.time * kRowShare;
  const RowCurve::Pool& before = pools[pools.size() - 2];
  return std::max((last.time - first.time) / (last.last_rows - first.last_rows),
                  (last.time - before.time) / (last.first_rows - before.last_rows));
}

double LatencyProfile::ms(std::size_t rows, std::size_t leaves) const {
  if (!known()) return 0;
  const double of_leaves = leaf_ms_ * static_cast<double>(std::max<std::size_t>(leaves, 1) - 1);
  const RowCurve::Pool& last = by_rows_.pools().back();
  const double beyond = static_cast<double>(rows) - last.last_rows;
  if (beyond <= 0) return by_rows_.time(rows) + of_leaves;
  return last.time + slope_beyond() * (1 + kCaution) * beyond + of_leaves;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/tree_memory.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// The mean of the last so many passes of a shape counts.
constexpr double kMemory = 12;

// The time of a pass also counts for a shape whose rows differ by less than this share, or by one.
constexpr double kNear = 0.25;

struct Pool {
  double weight = 0, ms = 0;
  std::int32_t first = 0, last = 0;  // rows
};

// Neighbours that fall are pooled until the means rise.
std::vector<Pool> rising(const std::vector<Pool>& means) {
  std::vector<Pool> pools;
  for (const Pool& mean : means) {
    pools.push_back(mean);
    while (pools.size() > 1 && pools[pools.size() - 2].ms >= pools.back().ms) {
      const Pool upper = pools.back();
      pools.pop_back();
      Pool& lower = pools.back();
      const double weight = lower.weight + upper.weight;
      lower.ms = (lower.ms * lower.weight + upper.ms * upper.weight) / weight;
      lower.weight = weight;
      lower.last = upper.last;
    }
  }
  return pools;
}

// The line through the means of nearly as many rows, at that of `at`; nearer ones count more.
double line_at(const std::vector<Pool>& means, const Pool& at) {
  const double width = 1 + at.first * kNear;
  double weight = 0, x = 0, xx = 0, y = 0, xy = 0;
  for (const Pool& mean : means) {
    const double off = mean.first - at.first;
    const double counts = mean.weight * std::max(0.0, 1 - std::abs(off) / width);
    weight += counts;
    x += counts * off;
    xx += counts * off * off;
    y += counts * mean.ms;
    xy += counts * off * mean.ms;
  }
  const double spread = weight * xx - x * x;
  return spread > 1e-6 * weight * weight ? (xx * y - x * xy) / spread : y / weight;
}

// One slow pass would otherwise keep trees from ever having so many rows again.
std::vector<Pool> smoothed(const std::vector<Pool>& means) {
  std::vector<Pool> smooth = means;
  for (Pool& mean : smooth) mean.ms = line_at(means, mean);
  return smooth;
}

}  // namespace

void LatencyProfile::observe(std::size_t rows, std::size_t leaves, double ms) {
  if (rows < 1 || rows > kMaxRows || leaves > rows || !(ms > 0) || !std::isfinite(ms)) return;
  Cell& cell = cells_[{static_cast<std::int32_t>(rows), static_cast<std::int32_t>(leaves)}];
  cell.weight = std::min(cell.weight + 1, kMemory);
  cell.ms += (ms - cell.ms) / cell.weight;
  fit();
}

bool LatencyProfile::restore(Shape shape, const Cell& cell) {
  const auto [rows, leaves] = shape;
  if (rows < 1 || rows > kMaxRows || leaves < 0 || leaves > rows) return false;
  if (!(cell.ms > 0) || !std::isfinite(cell.ms) || !(cell.weight > 0)) return false;
  cells_[shape] = {cell.ms, std::min(cell.weight, kMemory)};
  fit();
  return true;
}

void LatencyProfile::fit() {
  // The cost of a leaf: within the same number of rows, the slope of time over leaves.
  double across = 0, square = 0;
  std::map<std::int32_t, Pool> by_rows;
  std::map<std::int32_t, double> mean_leaves;
  for (const auto& [shape, cell] : cells_) {
    Pool& pool = by_rows[shape.first];
    pool.first = pool.last = shape.first;
    pool.ms += cell.ms * cell.weight;
    pool.weight += cell.weight;
    mean_leaves[shape.first] += shape.second * cell.weight;
  }
  for (auto& [rows, pool] : by_rows) {
    pool.ms /= pool.weight;
    mean_leaves[rows] /= pool.weight;
  }
  for (const auto& [shape, cell] : cells_) {
    const double leaves = shape.second - mean_leaves[shape.first];
    across += cell.weight * leaves * (cell.ms - by_rows[shape.first].ms);
    square += cell.weight * leaves * leaves;
  }
  leaf_ms_ = square > 0 ? std::max(0.0, across / square) : 0;

  std::vector<Pool> means;
  for (const auto& [rows, pool] : by_rows) {
    means.push_back(pool);
    means.back().ms -= leaf_ms_ * std::max(0.0, mean_leaves[rows] - 1);
  }
  rows_seen_ = means.size();
  const std::vector<Pool> pools = rising(smoothed(means));
  by_rows_.assign(static_cast<std::size_t>(pools.back().last) + 1, pools.front().ms);
  for (std::size_t i = 0; i < pools.size(); ++i) {
    for (std::int32_t rows = pools[i].first; rows <= pools[i].last; ++rows) {
      by_rows_[static_cast<std::size_t>(rows)] = pools[i].ms;
    }
    if (i == 0) continue;
    const Pool& below = pools[i - 1];
    const double slope = (pools[i].ms - below.ms) / (pools[i].first - below.last);
    for (std::int32_t rows = below.last + 1; rows < pools[i].first; ++rows) {
      by_rows_[static_cast<std::size_t>(rows)] = below.ms + slope * (rows - below.last);
    }
  }
  // Beyond: the steeper of the last piece and of the whole.
  const Pool &first = pools.front(), &last = pools.back();
  slope_ = 0;
  if (pools.size() > 1) {
    const Pool& before = pools[pools.size() - 2];
    slope_ = std::max((last.ms - first.ms) / (last.last - first.first),
                      (last.ms - before.ms) / (last.first - before.last));
  }
}

double LatencyProfile::ms(std::size_t rows, std::size_t leaves) const {
  if (cells_.empty()) return 0;
  const double of_leaves = leaf_ms_ * static_cast<double>(std::max<std::size_t>(leaves, 1) - 1);
  if (rows < by_rows_.size()) return by_rows_[rows] + of_leaves;
  const double beyond = static_cast<double>(rows - (by_rows_.size() - 1));
  // With one shape known nothing is known of slopes: a row is then taken to cost a share of it.
  const double slope = slope_ > 0 ? slope_ : by_rows_.back() * 0.01;
  return by_rows_.back() + slope * (1 + kCaution) * beyond + of_leaves;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/costs/row_curve.h"

#include <algorithm>

namespace outrider {

void RowTime::add(double pass_rows, double pass_time, double passes) {
  weight = weight * (1 - 1 / passes) + 1;
  rows += (pass_rows - rows) / weight;
  time += (pass_time - time) / weight;
}

RowCurve::RowCurve(std::span<const RowTime> means) {
  for (const RowTime& mean : means) {
    pools_.push_back({mean.rows, mean.rows, mean.time, mean.weight});
    while (pools_.size() > 1 && pools_[pools_.size() - 2].time >= pools_.back().time) {
      const Pool upper = pools_.back();
      pools_.pop_back();
      Pool& lower = pools_.back();
      const double weight = lower.weight + upper.weight;
      lower.time = (lower.time * lower.weight + upper.time * upper.weight) / weight;
      lower.weight = weight;
      lower.last_rows = upper.last_rows;
    }
  }
}

double RowCurve::time(std::size_t rows) const {
  if (pools_.empty()) return 0;
  const auto x = static_cast<double>(rows);
  const Pool& first = pools_.front();
  if (x < first.first_rows) return first.time * x / first.first_rows;
  auto upper = std::ranges::lower_bound(pools_, x, {}, &Pool::last_rows);
  const bool is_beyond = upper == pools_.end();
  if (is_beyond) --upper;
  const bool is_flat = is_beyond ? upper->first_rows < upper->last_rows : x >= upper->first_rows;
  if (is_flat || upper == pools_.begin()) return upper->time;
  const Pool& lower = *(upper - 1);
  const double slope = (upper->time - lower.time) / (upper->first_rows - lower.last_rows);
  return lower.time + slope * (x - lower.last_rows);
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/costs/pass_costs.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

constexpr double kPasses = 20;  // of a bucket, so many count
constexpr double kMaxExitsPercent = 900;
constexpr double kHeldUp = 2;  // times as long as its rows can take

}  // namespace

void PassCostBook::add(std::size_t rows, bool exits, Duration took) {
  const auto bucket = std::ranges::lower_bound(kBuckets, rows);
  if (rows == 0 || bucket == kBuckets.end() || took <= Duration{0}) return;
  auto& times = exits ? with_exits_ : plain_;
  const auto at = static_cast<std::size_t>(bucket - kBuckets.begin());
  double seconds = to_seconds(took);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (i == at || times[i].weight == 0) continue;
    const double share = std::max(1.0, static_cast<double>(rows) / times[i].rows);
    seconds = std::min(seconds, kHeldUp * share * times[i].time);
  }
  times[at].add(static_cast<double>(rows), seconds, kPasses);
}

std::vector<RowTime> PassCostBook::means() const {
  std::vector<RowTime> means;
  for (std::size_t i = 0; i < kBuckets.size(); ++i) {
    const RowTime& mean = plain_[i].weight > 0 ? plain_[i] : with_exits_[i];
    if (mean.weight > 0) means.push_back(mean);
  }
  return means;
}

RowCurve PassCostBook::curve() const {
  std::vector<RowTime> points = means();
  for (RowTime& point : points) point = {std::round(point.rows), point.time, 1};
  return RowCurve(points);
}

PassCosts PassCostBook::costs() const {
  PassCosts costs;
  for (const RowTime& mean : means()) {
    const auto rows = static_cast<std::uint32_t>(std::lround(mean.rows));
    costs.points.push_back({rows, from_ms(mean.time * 1e3)});
  }
  double with = 0, without = 0;  // over the buckets that have both
  for (std::size_t i = 0; i < kBuckets.size(); ++i) {
    const double weight = std::min(plain_[i].weight, with_exits_[i].weight);
    with += weight * with_exits_[i].time;
    without += weight * plain_[i].time;
  }
  if (without > 0) {
    costs.exits_percent = static_cast<std::uint32_t>(
        std::lround(std::clamp(100 * (with / without - 1), 0.0, kMaxExitsPercent)));
  }
  return costs;
}

}  // namespace outrider

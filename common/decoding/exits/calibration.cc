// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/calibration.h"

#include <algorithm>
#include <cmath>

namespace outrider {

namespace {

constexpr float kMinChance = 0.01f;

}  // namespace

float log_odds(float probability) {
  if (!(probability > kMinChance)) probability = kMinChance;  // NaN too
  const float p = std::min(probability, 1 - kMinChance);
  return std::log(p / (1 - p));
}

double Logistic::at(const RowEvidence& row) const {
  const double sum =
      slope * row.margin + spread_slope * row.spread + odds_slope * row.odds + offset;
  return 1 / (1 + std::exp(-sum));
}

float DraftPrior::at(float odds) const {
  return static_cast<float>(
      std::clamp<double>(offset + odds_slope * odds, -kMaxMargin, kMaxMargin));
}

double row_product(const Calibration& calibration, std::span<const RowEvidence> rows) {
  double product = 1;
  for (const RowEvidence& row : rows) {
    product *= calibration.rows[static_cast<std::size_t>(row.kind)].at(row);
  }
  return product;
}

double interpolate(std::span<const Knot> knots, double x) {
  if (knots.empty()) return x;
  if (x <= knots.front().x) return knots.front().y;
  for (std::size_t i = 1; i < knots.size(); ++i) {
    const Knot& low = knots[i - 1];
    const Knot& high = knots[i];
    if (x < high.x) return low.y + (high.y - low.y) * (x - low.x) / (high.x - low.x);
  }
  return knots.back().y;
}

double confidence(const Calibration& calibration, std::span<const RowEvidence> rows) {
  return std::clamp(interpolate(calibration.outcome, row_product(calibration, rows)), 0.0, 1.0);
}

const Calibration* find_calibration(std::span<const Calibration> all, double temperature) {
  const Calibration* best = nullptr;
  for (const Calibration& one : all) {
    if ((one.temperature == 0) != (temperature == 0)) continue;
    if (best == nullptr ||
        std::abs(one.temperature - temperature) < std::abs(best->temperature - temperature)) {
      best = &one;
    }
  }
  return best;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/market.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace outrider {

PassCurve::PassCurve(const PassCosts& costs) {
  // Neighbours that fall all take their mean: least squares among curves that never fall.
  struct Level {
    std::size_t first, last;  // points
    double seconds;
  };
  std::vector<Level> levels;
  for (std::size_t i = 0; i < costs.points.size(); ++i) {
    levels.push_back({i, i, to_seconds(costs.points[i].time)});
    while (levels.size() > 1 && levels.back().seconds < levels[levels.size() - 2].seconds) {
      const Level right = levels.back();
      levels.pop_back();
      Level& left = levels.back();
      const auto width = [](const Level& level) {
        return static_cast<double>(level.last - level.first + 1);
      };
      const double sum = left.seconds * width(left) + right.seconds * width(right);
      left = {left.first, right.last, sum / (width(left) + width(right))};
    }
  }
  for (const Level& level : levels) {
    for (std::size_t i = level.first; i <= level.last; ++i) {
      points_.push_back({static_cast<double>(costs.points[i].rows), level.seconds});
    }
  }
}

double PassCurve::seconds(std::size_t rows) const {
  if (points_.empty()) return 0;
  const auto x = static_cast<double>(rows);
  const Point& first = points_.front();
  if (x <= first.rows) return first.seconds * x / first.rows;
  if (points_.size() == 1) return first.seconds;
  auto right = std::ranges::lower_bound(points_, x, {}, &Point::rows);
  if (right == points_.end()) --right;
  const Point& from = *(right - 1);
  const double slope = (right->seconds - from.seconds) / (right->rows - from.rows);
  return from.seconds + slope * (x - from.rows);
}

std::vector<std::optional<std::size_t>> choose_rows(std::span<const RowOffer> offers,
                                                    const PassCurve& curve,
                                                    const RowBounds& bounds) {
  struct Row {
    double worth;
    std::size_t offer;
    bool is_text = false;
  };
  std::vector<Row> wanted;  // each offer's in its order, as their worth falls; its text first
  std::size_t rows = 0;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const RowOffer& offer = offers[i];
    rows += offer.prompt_rows;
    if (offer.prompt_rows == 0) wanted.push_back({offer.weight, i, true});
    for (const float chance : offer.chances) wanted.push_back({offer.weight * chance, i});
  }
  // A token for sure goes before a node of the same worth.
  std::ranges::stable_sort(wanted, std::greater{},
                           [](const Row& row) { return std::pair(row.worth, row.is_text); });

  std::size_t least = rows > 0 ? 0 : 1;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const bool is_plain = wanted[k].is_text && offers[wanted[k].offer].is_plain;
    if (is_plain && wanted[k].worth >= 1) least = k + 1;
  }
  const std::size_t room = bounds.most_rows > rows ? bounds.most_rows - rows : 0;
  least = std::min({least, wanted.size(), std::max<std::size_t>(room, rows > 0 ? 0 : 1)});
  std::size_t best = least;
  double worth = 0;
  std::optional<double> surplus;  // of the best
  for (std::size_t k = 0; k <= std::min(wanted.size(), std::max(room, least)); ++k) {
    if (k > 0) worth += wanted[k - 1].worth;
    if (k < least) continue;
    const double of_k = worth - bounds.price * curve.seconds(rows + k);
    if (surplus && of_k < *surplus) continue;
    surplus = of_k;
    best = k;
  }

  std::vector<std::optional<std::size_t>> nodes(offers.size());
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].prompt_rows > 0) nodes[i] = 0;
  }
  for (const Row& row : std::span(wanted).first(best)) {
    std::optional<std::size_t>& taken = nodes[row.offer];
    taken = taken ? *taken + 1 : 0;
  }
  return nodes;
}

}  // namespace outrider

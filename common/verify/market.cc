// SPDX-License-Identifier: Apache-2.0
#include "common/verify/market.h"

#include <algorithm>
#include <cmath>

namespace outrider {

PassCurve::PassCurve(const PassCosts& costs) {
  // Neighbours that fall are one point between them.
  struct Pool {
    Point mean;
    double weight;
  };
  std::vector<Pool> pools;
  for (const PassCosts::Point& measured : costs.points) {
    pools.push_back({{static_cast<double>(measured.rows), to_seconds(measured.time)}, 1});
    while (pools.size() > 1 && pools.back().mean.seconds < pools[pools.size() - 2].mean.seconds) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& before = pools.back();
      const double weight = before.weight + last.weight;
      const auto mean = [&](double a, double b) {
        return (a * before.weight + b * last.weight) / weight;
      };
      before = {
          {mean(before.mean.rows, last.mean.rows), mean(before.mean.seconds, last.mean.seconds)},
          weight};
    }
  }
  for (const Pool& pool : pools) points_.push_back(pool.mean);
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
  std::ranges::stable_sort(wanted, std::greater{}, &Row::worth);

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

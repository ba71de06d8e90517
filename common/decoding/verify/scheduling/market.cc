// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/market.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace outrider {

std::vector<std::optional<std::size_t>> choose_rows(std::span<const RowOffer> offers,
                                                    const RowCurve& curve,
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
    const double of_k = worth - bounds.price * curve.time(rows + k);
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

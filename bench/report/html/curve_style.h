// What a strategy looks like in every chart of a page.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace outrider {

struct CurveStyle {
  std::size_t colour = 0;  // of the plot's colours
  bool dashed = false;
};

// place: of the strategy among those of the run. The first ones, which most runs have, differ most;
// when the colours are used up, they begin anew with dashes.
inline CurveStyle curve_style(std::size_t place) {
  constexpr std::array<std::size_t, 8> kOrder = {0, 4, 2, 3, 5, 1, 6, 7};
  return {kOrder[place % kOrder.size()], place >= kOrder.size()};
}

}  // namespace outrider

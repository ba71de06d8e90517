// Solves the small linear systems of Newton's method. Thread rule: values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace outrider {

// x of a x = b. a: symmetric and positive definite, which needs no pivots.
template <std::size_t N>
std::array<double, N> solve_positive(std::array<std::array<double, N>, N> a,
                                     std::array<double, N> b) {
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t row = i + 1; row < N; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t k = i; k < N; ++k) a[row][k] -= factor * a[i][k];
      b[row] -= factor * b[i];
    }
  }
  for (std::size_t i = N; i-- > 0;) {
    for (std::size_t k = i + 1; k < N; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace outrider

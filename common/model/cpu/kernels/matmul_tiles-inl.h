// The walk over a matrix product in tiles, shared by all weight types.
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set (see vector_targets.h), so no #pragma once.
#if defined(OUTRIDER_MATMUL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OUTRIDER_MATMUL_TILES_INL_H_
#undef OUTRIDER_MATMUL_TILES_INL_H_
#else
#define OUTRIDER_MATMUL_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "common/model/cpu/kernels/kernels.h"
#include "common/model/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

// Columns of a product with one row of activations: enough sums to hide the latency of fused
// multiply-add.
inline constexpr int kSingleRowColumns = 4;

HWY_INLINE void store_output(const MatmulOutput& y, std::int64_t row, std::int64_t n, float sum) {
  float* to = y.y + row * y.stride + n;
  if (y.bias != nullptr) sum = sum + y.bias[n];
  *to = y.add ? *to + sum : sum;
}

// One tile: `count` columns from n, at most kColumns.
template <int kRows, int kColumns, class Product>
HWY_NOINLINE void compute_tile(const Product& product, std::int64_t row, Outputs columns,
                               const MatmulOutput& y) {
  std::size_t column[kColumns];
  for (int c = 0; c < kColumns; ++c) {
    // Past the end the last column is computed again, and dropped.
    column[c] = static_cast<std::size_t>(std::min(columns.begin + c, columns.end - 1));
  }
  constexpr int kSums = kRows * kColumns;
  Quad folded[(kSums + 3) / 4 * 4];
  product.template tile<kRows, kColumns>(static_cast<std::size_t>(row), column, folded);
  for (int i = kSums; i < (kSums + 3) / 4 * 4; ++i) folded[i] = folded[0];
  float sums[(kSums + 3) / 4 * 4];
  for (int i = 0; i < kSums; i += 4) {
    hn::StoreU(sum_quads(folded[i], folded[i + 1], folded[i + 2], folded[i + 3]), QuadTag(),
               sums + i);
  }
  const std::int64_t count = std::min<std::int64_t>(kColumns, columns.end - columns.begin);
  for (int r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < count; ++c) {
      store_output(y, row + r, columns.begin + c, sums[r * kColumns + c]);
    }
  }
}

// `count` rows, 1 to kRows, by the columns of one tile.
template <int kRows, int kColumns, class Product>
HWY_INLINE void compute_rows(const Product& product, std::int64_t row, std::int64_t count,
                             Outputs columns, const MatmulOutput& y) {
  if constexpr (kRows > 1) {
    if (count < kRows) return compute_rows<kRows - 1, kColumns>(product, row, count, columns, y);
  }
  compute_tile<kRows, kColumns>(product, row, columns, y);
}

// All rows, in tiles of kRows at the most, by the columns of `part`. Columns are outermost: when a
// further tile of rows comes, its weights are in the first level of cache.
template <int kRows, int kColumns, class Product>
HWY_INLINE void for_each_tile(const Product& product, std::int64_t rows, Outputs part,
                              const MatmulOutput& y) {
  const std::int64_t tiles = (rows + kRows - 1) / kRows;
  for (std::int64_t n = part.begin; n < part.end; n += kColumns) {
    const Outputs columns{n, std::min(n + kColumns, part.end)};
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t row = rows * t / tiles;
      compute_rows<kRows, kColumns>(product, row, rows * (t + 1) / tiles - row, columns, y);
    }
  }
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard

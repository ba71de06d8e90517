// Matrix product with f32, bf16 or f16 weights, widened in registers.
//
// Some rows are multiplied with the weights where they lie (FloatProduct): for the first tile of
// rows memory is the limit, further ones find the weights in the first level of cache. For many
// rows weights are widened once, block by block (PackedProduct), and a block serves all rows; sums
// wait in memory between blocks, all sixteen lanes of them. A tile is some rows of activations by
// some rows of weights, all sums in registers. Every way gives the same bits: each sum owns its 16
// lanes (lanes-inl.h) and takes its elements in order. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "common/model/cpu/kernels/aligned_buffer.h"
#include "common/model/cpu/kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/model/cpu/kernels/matmul_float.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/model/cpu/kernels/lanes-inl.h"
#include "common/model/cpu/kernels/matmul_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

// The most rows in one tile: sums, weights and one activation must fit the registers.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 6;
constexpr int kTileColumns = 4;
#else
constexpr int kTileRows = 3;
constexpr int kTileColumns = 2;
#endif
// With fewer columns at a time.
constexpr int kTallTileRows = 6;
constexpr int kTallTileColumns = HWY_TARGET == HWY_AVX3 ? 4 : 1;
// More rows than these are worth widening the weights once; measured, but for NEON's.
constexpr int kUnpackedRows = HWY_TARGET == HWY_AVX3 ? 128 : HWY_TARGET == HWY_AVX2 ? 16 : 6;

// Activations in the order in which a tile reads them: for each tile of rows, [steps][rows of the
// tile][16 lanes]. Rows that lie a power of two apart would compete for the same places in the
// cache.
class SideBySide {
 public:
  // tile_rows: of a tile, at the most.
  SideBySide(const MatmulInput& x, std::size_t inputs, std::size_t tile_rows)
      : values_(x.values), padded_((inputs + kLanes - 1) / kLanes * kLanes) {
    const auto rows = static_cast<std::size_t>(x.rows);
    if (rows == 1) return;
    static thread_local AlignedBuffer<float> buffer;
    buffer.grow(rows * padded_);
    float* to = buffer.data();
    const std::size_t tiles = (rows + tile_rows - 1) / tile_rows;
    for (std::size_t t = 0; t < tiles; ++t) {
      for (std::size_t k = 0; k < padded_; k += kLanes) {
        for (std::size_t r = rows * t / tiles; r < rows * (t + 1) / tiles; ++r, to += kLanes) {
          store_lanes(load_lanes(x.values + r * static_cast<std::size_t>(x.stride) + k), to);
        }
      }
    }
    values_ = buffer.data();
  }

  // Of the tile that begins with this row.
  const float* of(std::size_t row) const { return values_ + row * padded_; }

 private:
  const float* values_;
  std::size_t padded_;
};

template <class T>
struct FloatProduct {
  const T* weights;  // [outputs, inputs]
  std::size_t inputs;
  SideBySide x;

  // folded[r * kColumns + c] = x[row + r] . weights[columns[c]], not yet summed across lanes.
  template <int kRows, int kColumns>
  HWY_INLINE void tile(std::size_t row, const std::size_t* columns, Quad* folded) const {
    const T* w[kColumns];
    for (int c = 0; c < kColumns; ++c) w[c] = weights + columns[c] * inputs;
    const T* const next_tile = w[0] + kColumns * inputs;
    const float* const first = x.of(row);
    Lanes sums[kRows * kColumns];
    for (Lanes& sum : sums) sum = zero_lanes();
    const std::size_t whole = inputs / kLanes * kLanes;
    for (std::size_t k = 0; k < whole; k += kLanes) {
      // Columns side by side are several streams that each end soon; the tile after this one is
      // asked for in order of address: one stream, which the hardware follows too.
      ask_for(next_tile + kColumns * k, kColumns * kLanes * sizeof(T));
      step<kRows, kColumns>(w, k, first + k * kRows, sums);
    }
    if (whole < inputs) {
      T padded[kColumns][kLanes] = {};
      for (int c = 0; c < kColumns; ++c) {
        std::memcpy(padded[c], w[c] + whole, (inputs - whole) * sizeof(T));
        w[c] = padded[c];
      }
      step<kRows, kColumns>(w, 0, first + whole * kRows, sums);
    }
    for (int i = 0; i < kRows * kColumns; ++i) folded[i] = fold(sums[i]);
  }

  template <int kRows, int kColumns>
  HWY_INLINE void step(const T* const* w, std::size_t k, const float* first, Lanes* sums) const {
    for (int p = 0; p < kParts; ++p) {
      Part column[kColumns];
      for (int c = 0; c < kColumns; ++c) column[c] = load_part(w[c], k + p * kPartLanes);
      for (int r = 0; r < kRows; ++r) {
        const Part value = hn::LoadU(PartTag(), first + r * kLanes + p * kPartLanes);
        for (int c = 0; c < kColumns; ++c) {
          Part& sum = sums[r * kColumns + c].part[p];
          sum = hn::MulAdd(column[c], value, sum);
        }
      }
    }
  }
};

// Columns that are widened together, and elements of each: a block stays in the second level of
// cache, and a tile's activations in the first, while they meet.
constexpr std::size_t kPackedColumns = 32;
constexpr std::size_t kPackedElements = 512;
constexpr std::size_t kPackedTileRows = 6;
#if HWY_TARGET == HWY_AVX2
constexpr std::size_t kPackedTileColumns = 2;
#else
constexpr std::size_t kPackedTileColumns = 4;
#endif

// Both sides of a product lie in the order in which a tile reads them, one part of the lanes after
// the other: so more sums fit the registers, fewer loads serve them, and no two lines of a tile
// compete for a place in the cache.
template <class T>
class PackedProduct {
 public:
  PackedProduct(const WeightMatrix& weights, const MatmulInput& x)
      : weights_(static_cast<const T*>(weights.data)),
        inputs_(static_cast<std::size_t>(weights.inputs)),
        padded_((inputs_ + kLanes - 1) / kLanes * kLanes),
        rows_(static_cast<std::size_t>(x.rows)) {
    static thread_local AlignedBuffer<float> activations, packed, sums;
    activations.grow(rows_ * padded_);
    packed.grow(kPackedColumns * kPackedElements);
    sums.grow(rows_ * kRowSums);
    activations_ = activations.data();
    packed_ = packed.data();
    sums_ = sums.data();
    pack_activations(x);
  }

  void run(Outputs part, const MatmulOutput& y) {
    for (std::int64_t n = part.begin; n < part.end; n += kPackedColumns) {
      const Outputs columns{n, std::min<std::int64_t>(n + kPackedColumns, part.end)};
      std::fill_n(sums_, rows_ * kRowSums, 0.0f);
      for (std::size_t k = 0; k < padded_; k += kPackedElements) {
        pack_weights(columns, k);
        for_each_row_tile(
            [&](std::size_t row, std::size_t count) { add_rows<kPackedTileRows>(row, count, k); });
      }
      store(columns, y);
    }
  }

 private:
  static constexpr std::size_t kRowSums = kPackedColumns * kLanes;  // floats

  // The steps of 16 elements of the block that begins at element k.
  std::size_t steps(std::size_t k) const { return std::min(kPackedElements, padded_ - k) / kLanes; }

  template <class F>
  HWY_INLINE void for_each_row_tile(const F& f) const {
    const std::size_t tiles = (rows_ + kPackedTileRows - 1) / kPackedTileRows;
    for (std::size_t t = 0; t < tiles; ++t) {
      const std::size_t row = rows_ * t / tiles;
      f(row, rows_ * (t + 1) / tiles - row);
    }
  }

  // activations_ = for each tile of rows and each block: [parts][steps][rows of the tile][lanes of
  // a part].
  void pack_activations(const MatmulInput& x) {
    const PartTag d;
    const auto stride = static_cast<std::size_t>(x.stride);
    float* to = activations_;
    for_each_row_tile([&](std::size_t row, std::size_t count) {
      for (std::size_t k = 0; k < padded_; k += kPackedElements) {
        for (std::size_t p = 0; p < kParts; ++p) {
          const float* from = x.values + row * stride + k + p * kPartLanes;
          for (std::size_t s = 0; s < steps(k); ++s, from += kLanes) {
            for (std::size_t r = 0; r < count; ++r, to += kPartLanes) {
              hn::StoreU(hn::LoadU(d, from + r * stride), d, to);
            }
          }
        }
      }
    });
  }

  // packed_ = [column tiles][parts][steps][columns of the tile][lanes of a part] of the elements
  // from k on, zero where there are none.
  void pack_weights(Outputs columns, std::size_t k) {
    for (std::size_t c = 0; c < kPackedColumns; ++c) {
      float* to = packed_ + c / kPackedTileColumns * kPackedTileColumns * steps(k) * kLanes +
                  c % kPackedTileColumns * kPartLanes;
      const auto column = static_cast<std::size_t>(columns.begin) + c;
      if (column < static_cast<std::size_t>(columns.end)) {
        pack_column(weights_ + column * inputs_ + k, k, to);
      } else {
        const T zeros[kLanes] = {};
        for (std::size_t s = 0; s < steps(k); ++s) widen_step(zeros, s, steps(k), to);
      }
    }
  }

  HWY_INLINE void pack_column(const T* from, std::size_t k, float* to) const {
    const std::size_t count = steps(k), left = inputs_ - k;
    ask_for(from + kPackedElements, kPackedElements * sizeof(T));
    const std::size_t whole = std::min(count, left / kLanes);
    for (std::size_t s = 0; s < whole; ++s) widen_step(from + s * kLanes, s, count, to);
    if (whole == count) return;
    T padded[kLanes] = {};
    std::memcpy(padded, from + whole * kLanes, (left - whole * kLanes) * sizeof(T));
    widen_step(padded, whole, count, to);
  }

  HWY_INLINE static void widen_step(const T* from, std::size_t step, std::size_t steps, float* to) {
    for (std::size_t p = 0; p < kParts; ++p) {
      hn::StoreU(load_part(from, p * kPartLanes), PartTag(),
                 to + (p * steps + step) * kPackedTileColumns * kPartLanes);
    }
  }

  template <std::size_t kRows>
  HWY_INLINE void add_rows(std::size_t row, std::size_t count, std::size_t k) {
    if constexpr (kRows > 1) {
      if (count < kRows) return add_rows<kRows - 1>(row, count, k);
    }
    const std::size_t n = steps(k);
    const float* x = activations_ + row * padded_ + kRows * k;
    const float* w = packed_;
    for (std::size_t c = 0; c < kPackedColumns; c += kPackedTileColumns) {
      float* kept = sums_ + row * kRowSums + c * kLanes;
      for (std::size_t p = 0; p < kParts; ++p, w += n * kPackedTileColumns * kPartLanes) {
        add_tile<kRows>(w, x + p * n * kRows * kPartLanes, n, kept + p * kPartLanes);
      }
    }
  }

  template <std::size_t kRows>
  HWY_NOINLINE static void add_tile(const float* w, const float* x, std::size_t steps,
                                    float* kept) {
    const PartTag d;
    Part sums[kRows][kPackedTileColumns];
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t c = 0; c < kPackedTileColumns; ++c) {
        sums[r][c] = hn::LoadU(d, kept + r * kRowSums + c * kLanes);
      }
    }
    for (; steps > 0; --steps, w += kPackedTileColumns * kPartLanes, x += kRows * kPartLanes) {
      Part weights[kPackedTileColumns];
      for (std::size_t c = 0; c < kPackedTileColumns; ++c) {
        weights[c] = hn::LoadU(d, w + c * kPartLanes);
      }
      for (std::size_t r = 0; r < kRows; ++r) {
        const Part value = hn::LoadU(d, x + r * kPartLanes);
        for (std::size_t c = 0; c < kPackedTileColumns; ++c) {
          sums[r][c] = hn::MulAdd(weights[c], value, sums[r][c]);
        }
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t c = 0; c < kPackedTileColumns; ++c) {
        hn::StoreU(sums[r][c], d, kept + r * kRowSums + c * kLanes);
      }
    }
  }

  void store(Outputs columns, const MatmulOutput& y) const {
    for (std::size_t row = 0; row < rows_; ++row) {
      const float* sums = sums_ + row * kRowSums;
      float out[kPackedColumns];
      for (std::size_t c = 0; c < kPackedColumns; c += 4) {
        Quad folded[4];
        for (std::size_t i = 0; i < 4; ++i) folded[i] = fold(load_lanes(sums + (c + i) * kLanes));
        hn::StoreU(sum_quads(folded[0], folded[1], folded[2], folded[3]), QuadTag(), out + c);
      }
      for (std::int64_t n = columns.begin; n < columns.end; ++n) {
        store_output(y, static_cast<std::int64_t>(row), n, out[n - columns.begin]);
      }
    }
  }

  const T* weights_;
  std::size_t inputs_;
  std::size_t padded_;  // inputs, up to whole steps
  std::size_t rows_;
  // The thread's scratch.
  float* activations_;
  float* packed_;
  float* sums_;  // [rows, columns, 16 lanes]
};

template <class T>
void run(const WeightMatrix& weights, const MatmulInput& x, Outputs part, const MatmulOutput& y) {
  if (x.rows > kUnpackedRows) {
    PackedProduct<T>(weights, x).run(part, y);
    return;
  }
  const auto inputs = static_cast<std::size_t>(weights.inputs);
  const int tile_rows = x.rows > kTileRows ? kTallTileRows : kTileRows;
  const FloatProduct<T> product{static_cast<const T*>(weights.data), inputs,
                                SideBySide(x, inputs, tile_rows)};
  if (x.rows == 1) {
    for_each_tile<1, kSingleRowColumns>(product, x.rows, part, y);
  } else if (x.rows > kTileRows) {
    for_each_tile<kTallTileRows, kTallTileColumns>(product, x.rows, part, y);
  } else {
    for_each_tile<kTileRows, kTileColumns>(product, x.rows, part, y);
  }
}

}  // namespace

void matmul_float(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                  const MatmulOutput& y) {
  switch (weights.type) {
    case WeightType::kF32:
      return run<float>(weights, x, part, y);
    case WeightType::kBf16:
      return run<hwy::bfloat16_t>(weights, x, part, y);
    case WeightType::kF16:
      return run<hwy::float16_t>(weights, x, part, y);
    case WeightType::kQuantized:
      break;
  }
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

MatmulFunction matmul_float(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, matmul_float);
}

}  // namespace outrider
#endif  // HWY_ONCE

// Matrix product with f32, bf16 or f16 weights, widened in registers.
//
// A few rows are multiplied with the weights where they lie (FloatProduct): memory is the limit.
// For more rows weights are widened once, block by block (PackedProduct), and a block serves all
// rows; sums wait in memory between blocks, all sixteen lanes of them. A tile is some rows of
// activations by some rows of weights, all sums in registers. Every way gives the same bits: each
// sum owns its 16 lanes (lanes-inl.h) and takes its elements in order.
// SPDX-License-Identifier: Apache-2.0
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

template <class T>
struct FloatProduct {
  const T* weights;  // [outputs, inputs]
  std::size_t inputs;
  const float* x;  // [rows, stride]
  std::size_t stride;

  // folded[r * kColumns + c] = x[row + r] . weights[columns[c]], not yet summed across lanes.
  template <int kRows, int kColumns>
  HWY_INLINE void tile(std::size_t row, const std::size_t* columns, Quad* folded) const {
    const T* w[kColumns];
    for (int c = 0; c < kColumns; ++c) w[c] = weights + columns[c] * inputs;
    const T* const next_tile = w[0] + kColumns * inputs;
    const float* first = x + row * stride;
    Lanes sums[kRows * kColumns];
    for (Lanes& sum : sums) sum = zero_lanes();
    const std::size_t whole = inputs / kLanes * kLanes;
    for (std::size_t k = 0; k < whole; k += kLanes) {
      ask_for(next_tile + kColumns * k, kColumns * kLanes * sizeof(T));
      step<kRows, kColumns>(w, k, first + k, sums);
    }
    if (whole < inputs) {
      T padded[kColumns][kLanes] = {};
      for (int c = 0; c < kColumns; ++c) {
        std::memcpy(padded[c], w[c] + whole, (inputs - whole) * sizeof(T));
        w[c] = padded[c];
      }
      step<kRows, kColumns>(w, 0, first + whole, sums);
    }
    for (int i = 0; i < kRows * kColumns; ++i) folded[i] = fold(sums[i]);
  }

  template <int kRows, int kColumns>
  HWY_INLINE void step(const T* const* w, std::size_t k, const float* first, Lanes* sums) const {
    for (int p = 0; p < kParts; ++p) {
      Part column[kColumns];
      for (int c = 0; c < kColumns; ++c) column[c] = load_part(w[c], k + p * kPartLanes);
      for (int r = 0; r < kRows; ++r) {
        const Part value = hn::LoadU(PartTag(), first + r * stride + p * kPartLanes);
        for (int c = 0; c < kColumns; ++c) {
          Part& sum = sums[r * kColumns + c].part[p];
          sum = hn::MulAdd(column[c], value, sum);
        }
      }
    }
  }
};

// Columns that are widened together, and elements of each: a block stays in the first levels of
// cache while all rows meet it.
constexpr std::size_t kPackedColumns = 16;
constexpr std::size_t kPackedElements = 512;
constexpr std::size_t kColumnStep = kPackedColumns * kLanes;  // floats of one step of all columns
constexpr int kPackedTileRows = 6;
#if HWY_TARGET == HWY_AVX2
constexpr int kPackedTileColumns = 2;
#else
constexpr int kPackedTileColumns = 4;
#endif

template <class T>
class PackedProduct {
 public:
  PackedProduct(const WeightMatrix& weights, const MatmulInput& x)
      : weights_(static_cast<const T*>(weights.data)),
        inputs_(static_cast<std::size_t>(weights.inputs)),
        x_(x),
        stride_(static_cast<std::size_t>(x.stride)) {
    static thread_local AlignedBuffer<float> packed, sums;
    packed.grow(kPackedColumns * kPackedElements);
    sums.grow(static_cast<std::size_t>(x.rows) * kColumnStep);
    packed_ = packed.data();
    sums_ = sums.data();
  }

  void run(Outputs part, const MatmulOutput& y) {
    for (std::int64_t n = part.begin; n < part.end; n += kPackedColumns) {
      const Outputs columns{n, std::min<std::int64_t>(n + kPackedColumns, part.end)};
      std::fill_n(sums_, static_cast<std::size_t>(x_.rows) * kColumnStep, 0.0f);
      for (std::size_t k = 0; k < inputs_; k += kPackedElements) {
        const std::size_t elements = std::min(kPackedElements, inputs_ - k);
        pack(columns, k, elements);
        add_block(k, (elements + kLanes - 1) / kLanes);
      }
      store(columns, y);
    }
  }

 private:
  // packed_ = [steps][columns][16 lanes] of the elements from k on, zero where there are none.
  void pack(Outputs columns, std::size_t k, std::size_t elements) {
    const std::size_t whole = elements / kLanes;
    for (std::size_t c = 0; c < kPackedColumns; ++c) {
      float* to = packed_ + c * kLanes;
      const auto column = static_cast<std::size_t>(columns.begin) + c;
      if (column >= static_cast<std::size_t>(columns.end)) {
        for (std::size_t s = 0; s * kLanes < elements; ++s) {
          store_lanes(zero_lanes(), to + s * kColumnStep);
        }
        continue;
      }
      const T* from = weights_ + column * inputs_ + k;
      ask_for(from + kPackedElements, kPackedElements * sizeof(T));
      for (std::size_t s = 0; s < whole; ++s) widen_step(from + s * kLanes, to + s * kColumnStep);
      if (whole * kLanes < elements) {
        T padded[kLanes] = {};
        std::memcpy(padded, from + whole * kLanes, (elements - whole * kLanes) * sizeof(T));
        widen_step(padded, to + whole * kColumnStep);
      }
    }
  }

  HWY_INLINE static void widen_step(const T* from, float* to) {
    for (int p = 0; p < kParts; ++p) {
      hn::StoreU(load_part(from, static_cast<std::size_t>(p) * kPartLanes), PartTag(),
                 to + p * kPartLanes);
    }
  }

  void add_block(std::size_t k, std::size_t steps) {
    const std::int64_t tiles = (x_.rows + kPackedTileRows - 1) / kPackedTileRows;
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t row = x_.rows * t / tiles;
      add_rows<kPackedTileRows>(static_cast<std::size_t>(row), x_.rows * (t + 1) / tiles - row, k,
                                steps);
    }
  }

  template <int kRows>
  HWY_INLINE void add_rows(std::size_t row, std::int64_t count, std::size_t k, std::size_t steps) {
    if constexpr (kRows > 1) {
      if (count < kRows) return add_rows<kRows - 1>(row, count, k, steps);
    }
    for (std::size_t c = 0; c < kPackedColumns; c += kPackedTileColumns) {
      // One register of each sum at a time: so more sums fit, and fewer loads serve them.
      for (std::size_t p = 0; p < kParts; ++p) add_tile<kRows>(row, c, p * kPartLanes, k, steps);
    }
  }

  template <int kRows>
  HWY_NOINLINE void add_tile(std::size_t row, std::size_t column, std::size_t lane, std::size_t k,
                             std::size_t steps) {
    const PartTag d;
    Part sums[kRows][kPackedTileColumns];
    float* kept = sums_ + row * kColumnStep + column * kLanes + lane;
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kPackedTileColumns; ++c) {
        sums[r][c] = hn::LoadU(d, kept + r * kColumnStep + c * kLanes);
      }
    }
    const float* w = packed_ + column * kLanes + lane;
    const float* x = x_.values + row * stride_ + k + lane;
    for (std::size_t s = 0; s < steps; ++s, w += kColumnStep, x += kLanes) {
      Part weights[kPackedTileColumns];
      for (int c = 0; c < kPackedTileColumns; ++c) weights[c] = hn::LoadU(d, w + c * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const Part value = hn::LoadU(d, x + static_cast<std::size_t>(r) * stride_);
        for (int c = 0; c < kPackedTileColumns; ++c) {
          sums[r][c] = hn::MulAdd(weights[c], value, sums[r][c]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kPackedTileColumns; ++c) {
        hn::StoreU(sums[r][c], d, kept + r * kColumnStep + c * kLanes);
      }
    }
  }

  void store(Outputs columns, const MatmulOutput& y) const {
    for (std::int64_t row = 0; row < x_.rows; ++row) {
      const float* sums = sums_ + static_cast<std::size_t>(row) * kColumnStep;
      float out[kPackedColumns];
      for (std::size_t c = 0; c < kPackedColumns; c += 4) {
        Quad folded[4];
        for (std::size_t i = 0; i < 4; ++i) folded[i] = fold(load_lanes(sums + (c + i) * kLanes));
        hn::StoreU(sum_quads(folded[0], folded[1], folded[2], folded[3]), QuadTag(), out + c);
      }
      for (std::int64_t n = columns.begin; n < columns.end; ++n) {
        store_output(y, row, n, out[n - columns.begin]);
      }
    }
  }

  const T* weights_;
  std::size_t inputs_;
  const MatmulInput& x_;
  std::size_t stride_;
  // The thread's scratch.
  float* packed_;
  float* sums_;  // [rows, columns, 16 lanes]
};

template <class T>
void run(const WeightMatrix& weights, const MatmulInput& x, Outputs part, const MatmulOutput& y) {
  if (x.rows > kTileRows) {
    PackedProduct<T>(weights, x).run(part, y);
    return;
  }
  const FloatProduct<T> product{static_cast<const T*>(weights.data),
                                static_cast<std::size_t>(weights.inputs), x.values,
                                static_cast<std::size_t>(x.stride)};
  for_each_tile<kTileRows, kTileColumns>(product, 0, x.rows, part, y);
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

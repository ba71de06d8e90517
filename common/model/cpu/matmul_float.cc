// Matrix product with f32, bf16 or f16 weights, widened in registers.
//
// A tile is kRows rows of activations by kColumns rows of weights, all sums in registers. Tiles
// of other shapes give the same bits: each sum owns its 16 lanes (lanes-inl.h).
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "common/model/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/model/cpu/matmul_float.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/model/cpu/lanes-inl.h"
#include "common/model/cpu/matmul_tiles-inl.h"

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

template <class T>
void run(const WeightMatrix& weights, const MatmulInput& x, Outputs part, const MatmulOutput& y) {
  const FloatProduct<T> product{static_cast<const T*>(weights.data),
                                static_cast<std::size_t>(weights.inputs), x.values,
                                static_cast<std::size_t>(x.stride)};
  const std::int64_t row_bytes = weights.inputs * static_cast<std::int64_t>(sizeof(T));
  for_each_tile<kTileRows, kTileColumns>(product, row_bytes, x.rows, part, y);
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
    case WeightType::kInt8:
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

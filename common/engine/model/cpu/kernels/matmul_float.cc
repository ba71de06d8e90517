// Matrix product with f32, bf16 or f16 weights, widened in registers.
//
// One row is multiplied with the weights as they are read from memory (RowProduct). For several
// rows the weights are processed block by block (BlockedProduct), so that activations stay in L1.
// Both give the same bits: each sum has its own 16 lanes (lanes-inl.h) and takes its elements in
// order. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/cpu/kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/model/cpu/kernels/matmul_float.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/model/cpu/kernels/lanes-inl.h"
#include "common/engine/model/cpu/kernels/store_output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

#include "common/engine/model/cpu/kernels/blocked_product-inl.h"

// Four columns side by side hide the latency of fused multiply-add.
template <class T>
class RowProduct {
 public:
  // x: [pad_to_lanes(inputs)]
  RowProduct(const WeightMatrix& weights, const float* x) : parts_(parts_of(weights)), x_(x) {}

  void run(Outputs part, const MatmulOutput& y) const {
    for (std::int64_t n = part.begin; n < part.end; n += kColumns) {
      const std::int64_t count = std::min(kColumns, part.end - n);
      float sums[kColumns];
      multiply(n, count, sums);
      for (std::int64_t c = 0; c < count; ++c) store_output(y, 0, n + c, sums[c]);
    }
  }

 private:
  static constexpr std::int64_t kColumns = 4;

  HWY_NOINLINE void multiply(std::int64_t n, std::int64_t count, float* out) const {
    Lanes sums[kColumns];
    for (Lanes& sum : sums) sum = zero_lanes();
    const float* x = x_;
    for (const WeightMatrix& part : parts_) {
      add_part(part, n, count, x, sums);
      x += part.inputs;
    }
    hn::StoreU(sum_quads(fold(sums[0]), fold(sums[1]), fold(sums[2]), fold(sums[3])), QuadTag(),
               out);
  }

  // Beyond the last column it repeats the last, and the result is ignored.
  HWY_INLINE static void add_part(const WeightMatrix& part, std::int64_t n, std::int64_t count,
                                  const float* x, Lanes* sums) {
    const auto inputs = static_cast<std::size_t>(part.inputs);
    const auto stride = static_cast<std::size_t>(part.row_inputs());
    const T* w[kColumns];
    for (std::int64_t c = 0; c < kColumns; ++c) {
      w[c] = static_cast<const T*>(part.data) +
             static_cast<std::size_t>(n + std::min(c, count - 1)) * stride;
    }
    const T* const next_tile = w[0] + kColumns * stride;
    const std::size_t whole = inputs / kLanes * kLanes;
    for (std::size_t k = 0; k < whole; k += kLanes)
      step(w, k, next_tile + kColumns * k, x + k, sums);
    if (whole < inputs) {
      T padded[kColumns][kLanes];
      for (std::int64_t c = 0; c < kColumns; ++c) {
        pad(w[c] + whole, inputs - whole, padded[c]);
        w[c] = padded[c];
      }
      step(w, 0, next_tile, x + whole, sums);
    }
  }

  // Neighbouring columns are several short streams. So the next tile's memory is prefetched in
  // order of address: one stream, which the hardware prefetcher follows too.
  HWY_INLINE static void step(const T* const* w, std::size_t k, const T* next, const float* x,
                              Lanes* sums) {
    constexpr std::size_t kPrefetched = kColumns * kPartLanes;
    for (int p = 0; p < kParts; ++p) {
      prefetch(next + static_cast<std::size_t>(p) * kPrefetched, kPrefetched * sizeof(T));
      Part column[kColumns];
      for (std::int64_t c = 0; c < kColumns; ++c) {
        column[c] = load_part(w[c], k + static_cast<std::size_t>(p) * kPartLanes);
      }
      const Part value = hn::LoadU(PartTag(), x + p * kPartLanes);
      for (std::int64_t c = 0; c < kColumns; ++c) {
        Part& sum = sums[c].part[p];
        sum = hn::MulAdd(column[c], value, sum);
      }
    }
  }

  const std::span<const WeightMatrix> parts_;
  const float* x_;
};

template <class T>
void run(const WeightMatrix& weights, const MatmulInput& x, Outputs part, const MatmulOutput& y) {
  if (x.rows == 1) return RowProduct<T>(weights, x.values).run(part, y);
  BlockedProduct<T>(weights, x).run(part, y);
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

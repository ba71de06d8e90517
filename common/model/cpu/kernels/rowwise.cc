// Normalisation, activation function and quantisation of single rows of activations.
// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/kernels/rowwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/model/cpu/kernels/rowwise.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/base/vector_math-inl.h"
#include "common/model/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

// The largest |x| of a group of 32. A maximum has no rounding, so its order does not matter.
HWY_INLINE float largest_magnitude(const float* x) {
  Part largest = hn::Zero(PartTag());
  for (int i = 0; i < kQuantGroup; i += kPartLanes) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(PartTag(), x + i)));
  }
  return hn::GetLane(hn::MaxOfLanes(PartTag(), largest));
}

// Below this no f32 holds 127 / x; such a group counts as zero.
constexpr float kSmallestLargest = 1e-30f;

// values = round(x * factor); returns the sum of the first and the second half.
HWY_INLINE void round_group(const float* x, float factor, std::int8_t* values,
                            std::int32_t* half_sums) {
  const hn::Rebind<std::int8_t, PartTag> bytes;
  const hn::RebindToSigned<PartTag> d32;
  for (int half = 0; half < 2; ++half) {
    auto sum = hn::Zero(d32);
    for (int i = half * 16; i < (half + 1) * 16; i += kPartLanes) {
      const Part scaled = hn::Mul(hn::LoadU(PartTag(), x + i), hn::Set(PartTag(), factor));
      const auto rounded = hn::NearestInt(scaled);
      hn::StoreU(hn::DemoteTo(bytes, rounded), bytes, values + i);
      sum = hn::Add(sum, rounded);
    }
    half_sums[half] = hn::GetLane(hn::SumOfLanes(d32, sum));
  }
}

}  // namespace

void quantize_row(const float* x, std::int64_t count, std::byte* out) {
  for (std::int64_t at = 0; at < count; at += kQuantGroup, out += sizeof(QuantizedGroup)) {
    const float* group = x + at;
    float padded[kQuantGroup];
    if (at + kQuantGroup > count) {
      std::fill(padded, padded + kQuantGroup, 0.0f);
      std::copy(group, x + count, padded);
      group = padded;
    }
    const float largest = largest_magnitude(group);
    const bool zero = !(largest >= kSmallestLargest);
    QuantizedGroup quantized{};
    quantized.scale = zero ? 0.0f : largest / 127.0f;
    std::int32_t sums[2];
    round_group(group, zero ? 0.0f : 127.0f / largest, quantized.values, sums);
    const std::int32_t sum = sums[0] + sums[1];
    quantized.scaled_sum = quantized.scale * static_cast<float>(sum);
    quantized.offset4 = -8 * sum;
    quantized.offset8 = -128 * sum;
    for (int half = 0; half < 2; ++half) quantized.half_offsets8[half] = -128 * sums[half];
    std::memcpy(out, &quantized, sizeof(quantized));
  }
}

void rms_norm(const float* x, const float* weight, std::int64_t count, float epsilon, float* y) {
  const std::int64_t whole = count / kLanes * kLanes;
  Lanes squares = zero_lanes();
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Lanes value = load_lanes(x + i);
    squares = fused(value, value, squares);
  }
  if (whole < count) {
    float rest[kLanes] = {};
    std::memcpy(rest, x + whole, static_cast<std::size_t>(count - whole) * sizeof(float));
    const Lanes value = load_lanes(rest);
    squares = fused(value, value, squares);
  }
  const float mean = sum_lanes(squares) / static_cast<float>(count);
  const float factor = 1.0f / std::sqrt(mean + epsilon);
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * weight[i];
}

void silu_multiply(float* gate, const float* up, std::int64_t count) {
  const PartTag d;
  const Part one = hn::Set(d, 1.0f);
  for (std::int64_t i = 0; i < count; i += kPartLanes) {
    const Part x = hn::LoadU(d, gate + i);
    const Part silu = hn::Div(x, hn::Add(one, vector_exp(d, hn::Neg(x))));
    hn::StoreU(hn::Mul(silu, hn::LoadU(d, up + i)), d, gate + i);
  }
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

QuantizeRowFunction quantize_row(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, quantize_row);
}
RmsNormFunction rms_norm(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, rms_norm);
}
SiluMultiplyFunction silu_multiply(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, silu_multiply);
}

}  // namespace outrider
#endif  // HWY_ONCE

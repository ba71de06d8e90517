// Normalisation, activation function and quantisation of single rows.
// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/rowwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/model/cpu/rowwise.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/base/vector_math-inl.h"
#include "common/model/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

// The largest |x| of a group of 32. A maximum has no rounding, so its order is free.
HWY_INLINE float largest_magnitude(const float* x) {
  Part largest = hn::Zero(PartTag());
  for (int i = 0; i < kInt8Group; i += kPartLanes) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(PartTag(), x + i)));
  }
  return hn::GetLane(hn::MaxOfLanes(PartTag(), largest));
}

// Writes round(x * factor) of group g of a block in the order of kernels.h.
HWY_INLINE void store_group(const float* x, float factor, std::int64_t group, std::int8_t* block) {
  const hn::Rebind<std::int8_t, PartTag> bytes;
  std::int8_t values[kInt8Group];
  for (int i = 0; i < kInt8Group; i += kPartLanes) {
    const Part scaled = hn::Mul(hn::LoadU(PartTag(), x + i), hn::Set(PartTag(), factor));
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(scaled)), bytes, values + i);
  }
  for (std::int64_t i = 0; i < kInt8Group; i += 4) {
    std::memcpy(block + i / 4 * 64 + group * 4, values + i, 4);
  }
}

// Below this no f32 holds 127 / x; such a group counts as zero.
constexpr float kSmallestScale = 1e-30f;

// Elements [begin, begin + 32) of a row of weights as f32, zero beyond `count`.
template <class T>
HWY_INLINE void widen_group(const T* row, std::int64_t begin, std::int64_t count, float* out) {
  T padded[kInt8Group] = {};
  const std::int64_t have = std::min(kInt8Group, count - begin);
  std::memcpy(padded, row + begin, static_cast<std::size_t>(have) * sizeof(T));
  for (int i = 0; i < kInt8Group; i += kPartLanes) {
    hn::StoreU(load_part(padded, static_cast<std::size_t>(i)), PartTag(), out + i);
  }
}

// The smallest bf16 that is at least `x`, x >= 0: with it no quantised weight exceeds 127.
std::uint16_t bf16_at_least(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<std::uint16_t>((bits + 0xffff) >> 16);
}

template <class T>
void quantize_typed_weights(const T* row, std::int64_t inputs, std::int8_t* values,
                            std::uint16_t* scales) {
  const std::int64_t blocks = int8_blocks(inputs);
  std::memset(values, 0, static_cast<std::size_t>(blocks * kInt8Block));
  std::memset(scales, 0, static_cast<std::size_t>(blocks * kInt8BlockGroups) * sizeof(*scales));
  for (std::int64_t begin = 0; begin < inputs; begin += kInt8Group) {
    float group[kInt8Group];
    widen_group(row, begin, inputs, group);
    const float largest = largest_magnitude(group);
    if (!(largest >= kSmallestScale)) continue;
    const std::uint16_t scale = bf16_at_least(largest / 127.0f);
    const std::uint32_t scale_bits = static_cast<std::uint32_t>(scale) << 16;
    float widened = 0;
    std::memcpy(&widened, &scale_bits, sizeof(widened));
    const std::int64_t index = begin / kInt8Group;
    scales[index] = scale;
    store_group(group, 1.0f / widened, index % kInt8BlockGroups,
                values + begin / kInt8Block * kInt8Block);
  }
}

}  // namespace

void quantize_row(const float* x, std::int64_t count, Int8Block* out) {
  for (std::int64_t begin = 0; begin < int8_blocks(count) * kInt8Block; begin += kInt8Group) {
    Int8Block& block = out[begin / kInt8Block];
    const std::int64_t g = begin / kInt8Group % kInt8BlockGroups;
    float group[kInt8Group] = {};
    if (begin < count) {
      const std::int64_t have = std::min(kInt8Group, count - begin);
      std::memcpy(group, x + begin, static_cast<std::size_t>(have) * sizeof(float));
    }
    const float largest = largest_magnitude(group);
    const bool zero = !(largest >= kSmallestScale);
    block.scales[g] = zero ? 0.0f : largest / 127.0f;
    store_group(group, zero ? 0.0f : 127.0f / largest, g, block.values);
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < kInt8Group; ++i) {
      sum += block.values[i / 4 * 64 + g * 4 + i % 4];
    }
    block.offsets[g] = -128 * sum;
  }
}

void quantize_weights(const void* row, WeightType type, std::int64_t inputs, std::int8_t* values,
                      std::uint16_t* scales) {
  switch (type) {
    case WeightType::kF32:
      return quantize_typed_weights(static_cast<const float*>(row), inputs, values, scales);
    case WeightType::kBf16:
      return quantize_typed_weights(static_cast<const hwy::bfloat16_t*>(row), inputs, values,
                                    scales);
    case WeightType::kF16:
      return quantize_typed_weights(static_cast<const hwy::float16_t*>(row), inputs, values,
                                    scales);
    case WeightType::kInt8:
      break;
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
QuantizeWeightsFunction quantize_weights(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, quantize_weights);
}
RmsNormFunction rms_norm(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, rms_norm);
}
SiluMultiplyFunction silu_multiply(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, silu_multiply);
}

}  // namespace outrider
#endif  // HWY_ONCE

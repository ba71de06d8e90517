// Normalisation, activation functions, caps and quantisation of single rows of activations.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/kernels/rowwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/model/cpu/kernels/rowwise.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/base/vector_math-inl.h"
#include "common/engine/model/cpu/kernels/lanes-inl.h"

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

namespace {

// The sum of change(x[i]) in sixteen lanes; the elements beyond count add nothing.
template <class Change>
HWY_INLINE float sum_in_lanes(const float* x, std::int64_t count, const Change& change) {
  const std::int64_t whole = count / kLanes * kLanes;
  Lanes sums = zero_lanes();
  for (std::int64_t i = 0; i < whole; i += kLanes) sums = change(load_lanes(x + i), sums);
  if (whole < count) {
    float rest[kLanes];
    std::fill_n(rest, kLanes, change.neutral());
    std::copy_n(x + whole, count - whole, rest);
    sums = change(load_lanes(rest), sums);
  }
  return sum_lanes(sums);
}

struct AddValues {
  static float neutral() { return 0.0f; }
  HWY_INLINE Lanes operator()(const Lanes& x, const Lanes& sums) const {
    Lanes out;
    for (int p = 0; p < kParts; ++p) out.part[p] = hn::Add(x.part[p], sums.part[p]);
    return out;
  }
};

struct AddSquaredDistances {
  float mean;
  float neutral() const { return mean; }
  HWY_INLINE Lanes operator()(const Lanes& x, const Lanes& sums) const {
    Lanes out;
    for (int p = 0; p < kParts; ++p) {
      const Part distance = hn::Sub(x.part[p], hn::Set(PartTag(), mean));
      out.part[p] = hn::MulAdd(distance, distance, sums.part[p]);
    }
    return out;
  }
};

struct Silu {
  static HWY_INLINE Part of(Part x) {
    const PartTag d;
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), vector_exp(d, hn::Neg(x))));
  }
};

struct Gelu {
  static HWY_INLINE Part of(Part x) {
    const PartTag d;
    const Part erf = vector_erf(d, hn::Mul(x, hn::Set(d, 0x1.6a09e6p-1f)));
    return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), hn::Add(erf, hn::Set(d, 1.0f)));
  }
};

// (1 + tanh(u)) / 2 = 1 / (1 + e^(-2u)).
struct GeluTanh {
  static HWY_INLINE Part of(Part x) {
    const PartTag d;
    const Part cube = hn::Mul(hn::Mul(x, x), x);
    const Part inner = hn::MulAdd(cube, hn::Set(d, 0.044715f), x);
    const Part twice = hn::Mul(inner, hn::Set(d, -0x1.988454p+0f));  // -2 sqrt(2/pi)
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), vector_exp(d, twice)));
  }
};

struct Relu {
  static HWY_INLINE Part of(Part x) { return hn::Max(x, hn::Zero(PartTag())); }
};

template <class Function>
HWY_INLINE void activate(float* gate, const float* up, std::int64_t count) {
  const PartTag d;
  if (up == nullptr) {
    for (std::int64_t i = 0; i < count; i += kPartLanes) {
      hn::StoreU(Function::of(hn::LoadU(d, gate + i)), d, gate + i);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; i += kPartLanes) {
    const Part y = Function::of(hn::LoadU(d, gate + i));
    hn::StoreU(hn::Mul(y, hn::LoadU(d, up + i)), d, gate + i);
  }
}

}  // namespace

void layer_norm(const float* x, const NormWeights& weights, std::int64_t count, float epsilon,
                float* y) {
  const auto size = static_cast<float>(count);
  const float mean = sum_in_lanes(x, count, AddValues()) / size;
  const float variance = sum_in_lanes(x, count, AddSquaredDistances{mean}) / size;
  const float factor = 1.0f / std::sqrt(variance + epsilon);
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = (x[i] - mean) * factor * weights.weight[i] + weights.bias[i];
  }
}

void silu_multiply(float* gate, const float* up, std::int64_t count) {
  activate<Silu>(gate, up, count);
}
void gelu_multiply(float* gate, const float* up, std::int64_t count) {
  activate<Gelu>(gate, up, count);
}
void gelu_tanh_multiply(float* gate, const float* up, std::int64_t count) {
  activate<GeluTanh>(gate, up, count);
}
void relu_multiply(float* gate, const float* up, std::int64_t count) {
  activate<Relu>(gate, up, count);
}

void soft_cap(float* x, std::int64_t count, float cap) {
  const PartTag d;
  float padded[kPartLanes] = {};
  for (std::int64_t i = 0; i < count; i += kPartLanes) {
    const bool whole = i + kPartLanes <= count;
    if (!whole) std::copy(x + i, x + count, padded);
    float* at = whole ? x + i : padded;
    const Part scaled = hn::Div(hn::LoadU(d, at), hn::Set(d, cap));
    hn::StoreU(hn::Mul(vector_tanh(d, scaled), hn::Set(d, cap)), d, at);
    if (!whole) std::copy_n(padded, count - i, x + i);
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
LayerNormFunction layer_norm(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, layer_norm);
}
ActivationFunction silu_multiply(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, silu_multiply);
}
ActivationFunction gelu_multiply(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, gelu_multiply);
}
ActivationFunction gelu_tanh_multiply(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, gelu_tanh_multiply);
}
ActivationFunction relu_multiply(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, relu_multiply);
}
SoftCapFunction soft_cap(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, soft_cap);
}

}  // namespace outrider
#endif  // HWY_ONCE

// Quantises weights, 32 at a time. Sums use the sixteen lanes of lanes-inl.h, so that every CPU
// converts a model to the same bits. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/engine/model/cpu/kernels/rowwise.h"
#include "common/engine/model/format/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/model/cpu/kernels/quantize_weights.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/model/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

// Below this no f32 holds 127 / x; such a group counts as zero.
constexpr float kSmallestRange = 1e-30f;
constexpr float kLargest4 = 15.0f;

// 32 numbers.
struct Group {
  HWY_INLINE Group() {}  // NOLINT(modernize-use-equals-default)
  HWY_INLINE explicit Group(const float* from) {
    half[0] = load_lanes(from);
    half[1] = load_lanes(from + kLanes);
  }
  HWY_INLINE explicit Group(float value) {
    for (Lanes& lanes : half) {
      for (Part& part : lanes.part) part = hn::Set(PartTag(), value);
    }
  }
  Lanes half[2];
};

HWY_INLINE Group multiply(const Group& a, const Group& b) {
  Group product;
  for (int h = 0; h < 2; ++h) {
    for (int p = 0; p < kParts; ++p) {
      product.half[h].part[p] = hn::Mul(a.half[h].part[p], b.half[h].part[p]);
    }
  }
  return product;
}

// a * factor + offset, one rounding.
HWY_INLINE Group line_through(const Group& a, float factor, float offset) {
  Group result;
  for (int h = 0; h < 2; ++h) {
    for (int p = 0; p < kParts; ++p) {
      result.half[h].part[p] =
          hn::MulAdd(a.half[h].part[p], hn::Set(PartTag(), factor), hn::Set(PartTag(), offset));
    }
  }
  return result;
}

HWY_INLINE Group subtract(const Group& a, const Group& b) {
  Group difference;
  for (int h = 0; h < 2; ++h) {
    for (int p = 0; p < kParts; ++p) {
      difference.half[h].part[p] = hn::Sub(a.half[h].part[p], b.half[h].part[p]);
    }
  }
  return difference;
}

HWY_INLINE Group magnitudes(const Group& a) {
  Group result;
  for (int h = 0; h < 2; ++h) {
    for (int p = 0; p < kParts; ++p) result.half[h].part[p] = hn::Abs(a.half[h].part[p]);
  }
  return result;
}

// The sum of a * b.
HWY_INLINE float dot(const Group& a, const Group& b) {
  const Lanes sum = fused(a.half[0], b.half[0], zero_lanes());
  return sum_lanes(fused(a.half[1], b.half[1], sum));
}

// round(factor * (x - from)) within [low, high].
HWY_INLINE Group steps_of(const Group& x, float from, float factor, float low, float high) {
  const PartTag d;
  Group steps;
  for (int h = 0; h < 2; ++h) {
    for (int p = 0; p < kParts; ++p) {
      const Part scaled = hn::Mul(hn::Sub(x.half[h].part[p], hn::Set(d, from)), hn::Set(d, factor));
      steps.half[h].part[p] =
          hn::Min(hn::Max(hn::Round(scaled), hn::Set(d, low)), hn::Set(d, high));
    }
  }
  return steps;
}

// values + offset as bytes.
void store_values(const Group& values, float offset, std::uint8_t* out) {
  const hn::Rebind<std::uint8_t, PartTag> bytes;
  const hn::RebindToSigned<PartTag> d32;
  for (int h = 0; h < 2; ++h) {
    for (int p = 0; p < kParts; ++p) {
      const Part raised = hn::Add(values.half[h].part[p], hn::Set(PartTag(), offset));
      hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(d32, raised)), bytes,
                 out + h * kLanes + p * kPartLanes);
    }
  }
}

// The scale as the format stores it; an f16 scale is rounded up, so that no quantised weight
// exceeds its range.
float kept_scale(float scale, bool is_wide) {
  if (is_wide) return scale;
  std::uint16_t bits = to_f16(scale);
  if (from_f16(bits) < scale) ++bits;
  return from_f16(bits);
}
float kept(float value, bool is_wide) {
  return is_wide ? value : from_f16(to_f16(value));
}

// Symmetric: value - 128 in [-127, 127].
void quantize_8(const float* weights, bool is_wide, WeightGroup* out) {
  float largest = 0.0f;
  for (int i = 0; i < kQuantGroup; ++i) largest = std::max(largest, std::fabs(weights[i]));
  const float scale = largest >= kSmallestRange ? kept_scale(largest / 127.0f, is_wide) : 0.0f;
  out->scales[0] = out->scales[1] = scale;
  const float factor = scale > 0.0f ? 1.0f / scale : 0.0f;
  store_values(steps_of(Group(weights), 0.0f, factor, -127.0f, 127.0f), 128.0f, out->values);
}

// A line scale * value + minimum through weights, and its error.
struct Line {
  float scale = 0.0f;
  float minimum = 0.0f;
  float error = std::numeric_limits<float>::infinity();
};

// A group of weights, and the weight of each in the fit: large ones count more.
struct Target {
  HWY_INLINE explicit Target(const Group& weights) : x(weights) {
    const float root = std::sqrt(dot(x, x) / kQuantGroup);
    importance = line_through(magnitudes(x), 1.0f, root);
    sum_importance = dot(importance, Group(1.0f));
    sum_x = dot(importance, x);
  }
  Group x, importance;
  float sum_importance, sum_x;
};

// The least-squares line for given values.
HWY_INLINE Line fit(const Target& target, const Group& values) {
  const Group weighted = multiply(target.importance, values);
  const float sum_v = dot(weighted, Group(1.0f));
  const float sum_vv = dot(weighted, values);
  const float sum_vx = dot(weighted, target.x);
  const float determinant = target.sum_importance * sum_vv - sum_v * sum_v;
  Line line;
  if (!(determinant > 0.0f)) return line;
  line.scale = (target.sum_importance * sum_vx - target.sum_x * sum_v) / determinant;
  line.minimum = (sum_vv * target.sum_x - sum_v * sum_vx) / determinant;
  const Group off = subtract(line_through(values, line.scale, line.minimum), target.x);
  line.error = dot(multiply(target.importance, off), off);
  return line;
}

// Tries several step widths around (high - low) / 15 and returns the line with the least error.
HWY_INLINE Line best_line(const Group& x, float low, float high) {
  constexpr int kWidths = 16;
  const Target target(x);
  Line best{(high - low) / kLargest4, low};
  for (int width = 0; width < kWidths; ++width) {
    const float steps = kLargest4 - 1.0f + 0.125f * static_cast<float>(width);
    const Line line = fit(target, steps_of(x, low, steps / (high - low), 0.0f, kLargest4));
    if (line.error < best.error) best = line;
  }
  return best;
}

void quantize_4(const float* weights, bool is_wide, WeightGroup* out) {
  const auto [low, high] = std::minmax_element(weights, weights + kQuantGroup);
  const Group x(weights);
  Line line{0.0f, *low};
  if (*high - *low >= kSmallestRange) line = best_line(x, *low, *high);
  out->scales[0] = out->scales[1] = kept(line.scale, is_wide);
  out->minimum = kept(line.minimum, is_wide);
  const float factor = out->scales[0] > 0.0f ? 1.0f / out->scales[0] : 0.0f;
  store_values(steps_of(x, out->minimum, factor, 0.0f, kLargest4), 0.0f, out->values);
}

}  // namespace

void quantize_weights(const float* weights, const QuantFormat& format, WeightGroup* out) {
  const bool is_wide = format.scales == ScaleType::kF32;
  if (format.bits == 4) return quantize_4(weights, is_wide, out);
  quantize_8(weights, is_wide, out);
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

QuantizeWeightsFunction quantize_weights(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, quantize_weights);
}

}  // namespace outrider
#endif  // HWY_ONCE

// Quantising activations, as the CPU's quantize_row() does: what kernels share that make rows of
// QuantizedGroups.
//
// Included by files that hold kernels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/engine/model/cpu/kernels/quant_format.h"
#include "common/engine/model/cuda/kernels/device.h"
#include "common/engine/model/cuda/kernels/kernels.h"

namespace outrider::cuda {

inline constexpr int kGroupBytes = sizeof(QuantizedGroup);

// The groups of a whole quantised row.
inline int groups_of(const RowsOf& rows) {
  return static_cast<int>(((rows.whole > 0 ? rows.whole : rows.count) + 31) / 32);
}

// Below this the CPU's kernel takes a group for zero.
inline constexpr float kSmallestLargest = 1e-30f;

template <class T>
OUTRIDER_DEVICE T sum_of_half(T value) {
  for (int mask = 8; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// A group of 32 activations, one in each lane of a warp.
OUTRIDER_DEVICE void quantize_group(float x, int lane, std::byte* out) {
  float largest = x < 0.0f ? -x : x;
  for (int mask = 16; mask > 0; mask /= 2) largest = larger(largest, shuffle_xor(largest, mask));
  const bool is_zero = !(largest >= kSmallestLargest);
  const float scale = is_zero ? 0.0f : divide(largest, 127.0f);
  const float factor = is_zero ? 0.0f : divide(127.0f, largest);
  const auto rounded = static_cast<std::int32_t>(round_even(multiply(x, factor)));
  const std::int32_t half = sum_of_half(rounded);
  const std::int32_t other = shuffle_xor(half, 16);
  *reinterpret_cast<std::int8_t*>(out + lane) = static_cast<std::int8_t>(rounded);
  if (lane > 0) return;
  const std::int32_t sum = half + other;
  auto* group = reinterpret_cast<QuantizedGroup*>(out);
  group->scale = scale;
  group->scaled_sum = multiply(scale, static_cast<float>(sum));
  group->offset4 = -8 * sum;
  group->offset8 = -128 * sum;
  group->half_offsets8[0] = -128 * half;
  group->half_offsets8[1] = -128 * other;
  group->unused[0] = group->unused[1] = 0;
}

}  // namespace outrider::cuda

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/kernels/panel_writer.h"

#include <algorithm>
#include <cstring>

#include "common/engine/model/format/dtype.h"

namespace outrider {
namespace {

constexpr std::int64_t kStepBytes = 4 * kPanelOutputs;
constexpr std::int64_t kHalf = kQuantGroup / 2;
constexpr std::int64_t kLowSteps = 4;  // of int6, before those with the high bits

// Stores the high bits of int6 to the column of its last two steps.
void store_high_bits(const std::uint8_t* values, std::byte* to) {
  for (std::int64_t half = 0; half < 2; ++half, to += kStepBytes) {
    for (std::int64_t i = 0; i < 4; ++i) {
      int bits = 0;
      for (std::int64_t s = 0; s < 4; ++s) bits |= values[half * kHalf + 4 * s + i] >> 4 << 2 * s;
      to[i] = static_cast<std::byte>(bits);
    }
  }
}

// Value k of a group, from the column's first byte on.
int value_at(const QuantFormat& format, const std::byte* column, std::int64_t k) {
  const bool is_high = format.bits != 8 && k >= kHalf;
  const std::int64_t step = (is_high ? k - kHalf : k) / 4;
  const auto byte = std::to_integer<int>(column[step * kStepBytes + k % 4]);
  if (format.bits == 8) return byte;
  const int low = is_high ? byte >> 4 : byte & 15;
  if (format.bits == 4) return low;
  const std::byte high = column[(kLowSteps + k / kHalf) * kStepBytes + k % 4];
  return low | (std::to_integer<int>(high) >> 2 * step & 3) << 4;
}

// Number `column` of a row of f16 or f32.
void store_number(std::byte* row, std::int64_t column, bool is_f32, float value) {
  if (is_f32) {
    std::memcpy(row + column * 4, &value, sizeof(value));
    return;
  }
  const std::uint16_t half = to_f16(value);
  std::memcpy(row + column * 2, &half, sizeof(half));
}

float number_at(const std::byte* row, std::int64_t column, bool is_f32) {
  if (is_f32) {
    float value = 0;
    std::memcpy(&value, row + column * 4, sizeof(value));
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, row + column * 2, sizeof(half));
  return from_f16(half);
}

}  // namespace

void PanelWriter::store(std::int64_t output, std::int64_t index, const WeightGroup& group) const {
  std::byte* panel = data_ + output / kPanelOutputs * layout_.panel_bytes;
  const std::int64_t column = output % kPanelOutputs;
  std::byte* values = panel + layout_.values(index) + column * 4;
  if (format_.bits == 8) {
    for (std::int64_t k = 0; k < kQuantGroup; k += 4) {
      std::memcpy(values + k / 4 * kStepBytes, group.values + k, 4);
    }
  } else {
    for (std::int64_t k = 0; k < kHalf; ++k) {
      const int both = (group.values[k] & 15) | group.values[kHalf + k] << 4;
      values[k / 4 * kStepBytes + k % 4] = static_cast<std::byte>(both);
    }
    if (format_.bits == 6) store_high_bits(group.values, values + kLowSteps * kStepBytes);
  }
  if (format_.scales == ScaleType::kMultiples) {
    store_multiples(panel, index, column, group.multiples);
    return;
  }
  const bool is_f32 = format_.scales == ScaleType::kF32;
  const std::int64_t scales = format_.scales_per_group();
  const float minimums[] = {group.minimum, group.second_minimum};
  for (std::int64_t i = 0; i < scales; ++i) {
    const std::int64_t row = index * scales + i;
    store_number(panel + layout_.scales(row), column, is_f32, group.scales[i]);
    if (!format_.has_minimum) continue;
    store_number(panel + layout_.minimums(row), column, is_f32, minimums[i]);
  }
}

// All groups of a block have its units.
void PanelWriter::store_multiples(std::byte* panel, std::int64_t index, std::int64_t column,
                                  const Multiples& multiples) const {
  const std::int64_t scales = format_.scales_per_group();
  store_number(panel + layout_.units(index), column, false, multiples.unit);
  for (std::int64_t i = 0; i < scales; ++i) {
    panel[layout_.scales(index * scales + i) + column] =
        static_cast<std::byte>(multiples.scales[i]);
  }
  if (!format_.has_minimum) return;
  store_number(panel + layout_.minimum_units(index), column, false, multiples.minimum_unit);
  for (std::int64_t i = 0; i < scales; ++i) {
    panel[layout_.minimums(index * scales + i) + column] =
        static_cast<std::byte>(multiples.minimums[i]);
  }
}

void read_panel_row(const QuantFormat& format, std::int64_t inputs, const std::byte* data,
                    std::int64_t output, float* out) {
  const PanelLayout layout(format, inputs);
  const std::byte* panel = data + output / kPanelOutputs * layout.panel_bytes;
  const std::int64_t column = output % kPanelOutputs;
  // row: of scales or minimums; unit: of the same, where they are multiples.
  const auto scale_at = [&](std::int64_t row, std::int64_t unit) {
    if (format.scales != ScaleType::kMultiples) {
      return number_at(panel + row, column, format.scales == ScaleType::kF32);
    }
    const auto multiple = static_cast<std::int8_t>(panel[row + column]);
    return number_at(panel + unit, column, false) * static_cast<float>(multiple);
  };
  for (std::int64_t k = 0; k < inputs; ++k) {
    const std::int64_t group = k / kQuantGroup, at = k % kQuantGroup;
    const int stored = value_at(format, panel + layout.values(group) + column * 4, at);
    const int value = format.has_table ? kTableValues[stored] : stored;
    const std::int64_t row = k / format.scale_group;
    const float scale = scale_at(layout.scales(row), layout.units(group));
    out[k] = scale * static_cast<float>(value - format.zero());
    if (format.has_minimum) {
      out[k] += scale_at(layout.minimums(row), layout.minimum_units(group));
    }
  }
}

}  // namespace outrider

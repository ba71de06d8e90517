// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/kernels/panel_writer.h"

#include <algorithm>
#include <cstring>

#include "common/model/format/dtype.h"

namespace outrider {
namespace {

constexpr std::int64_t kStepBytes = 4 * kPanelOutputs;
constexpr std::int64_t kHalf = kQuantGroup / 2;

}  // namespace

void PanelWriter::store(std::int64_t output, std::int64_t index, const WeightGroup& group) const {
  std::byte* panel = data_ + output / kPanelOutputs * layout_.panel_bytes;
  const std::int64_t column = output % kPanelOutputs;
  std::byte* values = panel + index * layout_.group_bytes + column * 4;
  if (format_.bits == 8) {
    for (std::int64_t k = 0; k < kQuantGroup; k += 4) {
      std::memcpy(values + k / 4 * kStepBytes, group.values + k, 4);
    }
  } else {
    for (std::int64_t k = 0; k < kHalf; ++k) {
      const int both = group.values[k] | group.values[kHalf + k] << 4;
      values[k / 4 * kStepBytes + k % 4] = static_cast<std::byte>(both);
    }
  }
  const std::int64_t scales = format_.scales_per_group();
  for (std::int64_t i = 0; i < scales; ++i) {
    store_scale(panel + layout_.scales, index * scales + i, column, group.scales[i]);
  }
  if (!format_.has_minimum) return;
  store_scale(panel + layout_.minimums, index * scales, column, group.minimum);
  if (scales == 1) return;
  store_scale(panel + layout_.minimums, index * scales + 1, column, group.second_minimum);
}

void PanelWriter::store_scale(std::byte* from, std::int64_t index, std::int64_t column,
                              float value) const {
  const std::int64_t at = (index * kPanelOutputs + column) * format_.scale_bytes();
  if (format_.wide_scales) {
    std::memcpy(from + at, &value, sizeof(value));
  } else {
    const std::uint16_t half = to_f16(value);
    std::memcpy(from + at, &half, sizeof(half));
  }
}

void read_panel_row(const QuantFormat& format, std::int64_t inputs, const std::byte* data,
                    std::int64_t output, float* out) {
  const PanelLayout layout(format, inputs);
  const std::byte* panel = data + output / kPanelOutputs * layout.panel_bytes;
  const std::int64_t column = output % kPanelOutputs;
  const auto scale_at = [&](std::int64_t from, std::int64_t index) {
    const std::byte* at = panel + from + (index * kPanelOutputs + column) * format.scale_bytes();
    if (format.wide_scales) {
      float value = 0;
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    std::uint16_t half = 0;
    std::memcpy(&half, at, sizeof(half));
    return from_f16(half);
  };
  for (std::int64_t k = 0; k < inputs; ++k) {
    const std::int64_t group = k / kQuantGroup, at = k % kQuantGroup;
    const bool is_high = format.bits == 4 && at >= kHalf;
    const std::int64_t step = (is_high ? at - kHalf : at) / 4;
    const auto byte = std::to_integer<int>(
        panel[group * layout.group_bytes + step * kStepBytes + column * 4 + at % 4]);
    const int stored = format.bits == 8 ? byte : is_high ? byte >> 4 : byte & 15;
    const int value = format.has_table ? kTableValues[stored] : stored;
    const float scale = scale_at(layout.scales, k / format.scale_group);
    out[k] = scale * static_cast<float>(value - format.zero());
    if (format.has_minimum) out[k] += scale_at(layout.minimums, k / format.scale_group);
  }
}

}  // namespace outrider

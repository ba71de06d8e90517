// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/level_parts.h"

#include <algorithm>
#include <cstring>

#include "common/engine/model/cpu/kernels/weight_memory.h"

namespace outrider {
namespace {

// A matrix has no more parts than its model has levels.
static_assert(static_cast<std::int64_t>(kMaxElasticLevels) <= kMaxParts);

// How many rows or columns of a matrix a level reads.
std::int64_t width_of(ModelPart part, const LayerWidths& widths, const ModelConfig& config) {
  switch (part) {
    case ModelPart::kQuery:
    case ModelPart::kAttentionOutput:
      return widths.kv_groups * group_columns(config);
    case ModelPart::kKey:
    case ModelPart::kValue:
      return std::int64_t{widths.kv_groups} * config.head_dim;
    default:
      return widths.neurons;
  }
}

std::int64_t element_bytes(const WeightMatrix& matrix) {
  return matrix.type == WeightType::kF32 ? 4 : 2;
}

// Groups [first, end) of a panel, to a panel of these alone.
void copy_groups(const QuantFormat& format, const PanelLayout& from_layout, const std::byte* from,
                 std::int64_t first, const PanelLayout& to_layout, std::byte* to) {
  const auto copy = [&](std::int64_t to_offset, std::int64_t from_offset, std::int64_t bytes) {
    std::memcpy(to + to_offset, from + from_offset, static_cast<std::size_t>(bytes));
  };
  const bool has_units = format.scales == ScaleType::kMultiples;
  for (std::int64_t g = 0; g < to_layout.groups; ++g) {
    copy(to_layout.values(g), from_layout.values(first + g), to_layout.group_bytes);
    if (has_units) copy(to_layout.units(g), from_layout.units(first + g), kUnitBytes);
    if (has_units && format.has_minimum) {
      copy(to_layout.minimum_units(g), from_layout.minimum_units(first + g), kUnitBytes);
    }
    for (std::int64_t i = 0; i < format.scales_per_group(); ++i) {
      const std::int64_t row = g * format.scales_per_group() + i;
      const std::int64_t old = first * format.scales_per_group() + row;
      copy(to_layout.scales(row), from_layout.scales(old), to_layout.scale_row);
      if (!format.has_minimum) continue;
      copy(to_layout.minimums(row), from_layout.minimums(old), to_layout.scale_row);
    }
  }
}

}  // namespace

std::vector<LevelPart> level_parts(const ElasticTable& table, const ModelConfig& config,
                                   std::int32_t layer, const std::vector<bool>& has_units) {
  const std::vector<LayerMatrix> matrices = layer_matrices(config);
  const LayerWidths full = full_widths(config);
  std::vector<std::int64_t> ends(matrices.size(), 0);
  std::vector<LevelPart> parts;
  for (std::size_t level = table.levels.size(); level-- > 0;) {
    const LayerWidths& widths = table.levels[level].layers[static_cast<std::size_t>(layer)];
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      const ModelPart part = matrices[m].part;
      const std::int64_t step = !is_cut_in_columns(part) ? kPanelOutputs
                                : has_units[m]           ? kBlockGroups * kQuantGroup
                                                         : kQuantGroup;
      const std::int64_t wanted = (width_of(part, widths, config) + step - 1) / step * step;
      const std::int64_t end = std::min(wanted, width_of(part, full, config));
      if (end > ends[m])
        parts.push_back({.matrix = m, .level = level, .begin = ends[m], .end = end});
      ends[m] = std::max(ends[m], end);
    }
  }
  return parts;
}

WeightMatrix cut_rows(const WeightMatrix& whole, std::int64_t begin, std::int64_t end) {
  WeightMatrix part = whole;
  part.outputs = end - begin;
  const std::int64_t bytes =
      whole.type == WeightType::kQuantized
          ? begin / kPanelOutputs * PanelLayout(whole.format, whole.inputs).panel_bytes
          : begin * whole.inputs * element_bytes(whole);
  part.data = static_cast<const std::byte*>(whole.data) + bytes;
  return part;
}

WeightMatrix cut_columns(const WeightMatrix& whole, std::int64_t begin, std::int64_t end,
                         std::vector<std::byte>& memory) {
  WeightMatrix part = whole;
  part.inputs = end - begin;
  memory.assign(static_cast<std::size_t>(bytes_of(part)), std::byte{});
  part.data = memory.data();
  const auto* from = static_cast<const std::byte*>(whole.data);
  if (whole.type != WeightType::kQuantized) {
    const std::int64_t size = element_bytes(whole);
    for (std::int64_t n = 0; n < whole.outputs; ++n) {
      std::memcpy(memory.data() + n * part.inputs * size, from + (n * whole.inputs + begin) * size,
                  static_cast<std::size_t>(part.inputs * size));
    }
    return part;
  }
  const PanelLayout from_layout(whole.format, whole.inputs), to_layout(part.format, part.inputs);
  for (std::int64_t p = 0; p < PanelLayout::panels(whole.outputs); ++p) {
    copy_groups(whole.format, from_layout, from + p * from_layout.panel_bytes, begin / kQuantGroup,
                to_layout, memory.data() + p * to_layout.panel_bytes);
  }
  return part;
}

}  // namespace outrider

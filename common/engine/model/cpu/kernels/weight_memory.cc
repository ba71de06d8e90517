// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/kernels/weight_memory.h"

namespace outrider {

std::int64_t bytes_of(const WeightMatrix& matrix) {
  switch (matrix.type) {
    case WeightType::kF32:
      return matrix.outputs * matrix.inputs * 4;
    case WeightType::kBf16:
    case WeightType::kF16:
      return matrix.outputs * matrix.inputs * 2;
    case WeightType::kQuantized:
      break;
  }
  return PanelLayout::panels(matrix.outputs) *
         PanelLayout(matrix.format, matrix.inputs).panel_bytes;
}

std::span<const std::byte> memory_of(const WeightMatrix& matrix) {
  return {static_cast<const std::byte*>(matrix.data), static_cast<std::size_t>(bytes_of(matrix))};
}

std::int64_t padding_of(const WeightMatrix& matrix) {
  if (matrix.type != WeightType::kQuantized) return 0;
  const QuantFormat& format = matrix.format;
  const std::int64_t groups = PanelLayout(format, matrix.inputs).groups;
  const std::int64_t blocks = (groups + kBlockGroups - 1) / kBlockGroups;
  const std::int64_t units = format.scales == ScaleType::kMultiples ? 2 * blocks : 0;
  const std::int64_t scales = groups * format.scales_per_group() * format.scale_bytes() + units;
  const std::int64_t used =
      matrix.outputs * (matrix.inputs * format.bits / 8 + scales * (format.has_minimum ? 2 : 1));
  return bytes_of(matrix) - used;
}

}  // namespace outrider

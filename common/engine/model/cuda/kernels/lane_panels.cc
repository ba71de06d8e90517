// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/kernels/lane_panels.h"

#include <algorithm>
#include <cstring>

#include "common/engine/model/cpu/kernels/weight_memory.h"

namespace outrider::cuda {

std::int64_t lane_panel_bytes(const WeightMatrix& matrix) {
  return PanelLayout::panels(matrix.outputs) * kPanelOutputs * pad_to_lanes(matrix.inputs) *
         element_bytes(matrix.type);
}

std::int64_t device_bytes(const WeightMatrix& matrix) {
  return matrix.type == WeightType::kQuantized ? bytes_of(matrix) : lane_panel_bytes(matrix);
}

void write_lane_panels(const WeightMatrix& matrix, std::byte* to) {
  const std::int64_t bytes = element_bytes(matrix.type);
  const std::int64_t steps = pad_to_lanes(matrix.inputs) / kLaneStep;
  std::memset(to, 0, static_cast<std::size_t>(lane_panel_bytes(matrix)));
  const auto* from = static_cast<const std::byte*>(matrix.data);
  for (std::int64_t n = 0; n < matrix.outputs; ++n) {
    for (std::int64_t s = 0; s < steps; ++s) {
      const std::int64_t count = std::min(kLaneStep, matrix.inputs - s * kLaneStep);
      const std::int64_t place =
          (n / kPanelOutputs * steps + s) * kPanelOutputs + n % kPanelOutputs;
      std::memcpy(to + place * kLaneStep * bytes,
                  from + (n * matrix.inputs + s * kLaneStep) * bytes,
                  static_cast<std::size_t>(count * bytes));
    }
  }
}

}  // namespace outrider::cuda

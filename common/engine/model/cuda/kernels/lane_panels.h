// How matrices of f32, bf16 and f16 lie on a GPU: [panels of 16 outputs][steps of 16 elements][16
// outputs][16 elements], outputs and elements filled up with zeros.
//
// A step is the sixteen virtual lanes of the CPU's products (docs/row-invariance.md), and a panel
// is read as one stream. The numbers are those of the matrix: the layout changes no bit.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider::cuda {

inline constexpr std::int64_t kLaneStep = 16;

// The bytes of an f32, bf16 or f16 element.
constexpr std::int64_t element_bytes(WeightType type) {
  return type == WeightType::kF32 ? 4 : 2;
}

// The bytes of a matrix whose type is not quantised.
std::int64_t lane_panel_bytes(const WeightMatrix& matrix);

// The bytes of any matrix as it lies on a GPU: a quantised one as on the CPU.
std::int64_t device_bytes(const WeightMatrix& matrix);

// matrix.data, row-major, to lane_panel_bytes() of memory.
void write_lane_panels(const WeightMatrix& matrix, std::byte* to);

}  // namespace outrider::cuda

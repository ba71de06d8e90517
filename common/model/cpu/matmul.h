// Picks the matrix products for an instruction set; see kernels.h for what they compute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/model/cpu/kernels.h"

namespace outrider {

using MatmulFunction = void (*)(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                                const MatmulOutput& y);

// For weights of type f32, bf16 and f16.
MatmulFunction matmul_float(VectorTarget target);

// For int8 weights. AVX-512 without VNNI (before Cascade Lake) takes the AVX2 kernel.
MatmulFunction matmul_int8(VectorTarget target);

}  // namespace outrider

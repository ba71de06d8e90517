// Selects the matrix products for an instruction set; see kernels.h for their meaning.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

using MatmulFunction = void (*)(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                                const MatmulOutput& y);

// For weights of type f32, bf16 and f16.
MatmulFunction matmul_float(VectorTarget target);

// For quantised weights. AVX-512 without VNNI (before Cascade Lake) uses the AVX2 kernel.
MatmulFunction matmul_quantized(VectorTarget target);

// matmul_quantized() with the CPU's products of four bytes, which it must have.
MatmulFunction matmul_quantized_dot(VectorTarget target);

#if defined(__aarch64__)
// matmul_quantized() with products of 2 x 8 by 8 x 2 bytes (I8MM), which the CPU must have.
MatmulFunction matmul_quantized_matrix();
#endif

}  // namespace outrider

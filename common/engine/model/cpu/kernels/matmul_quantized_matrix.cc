// Matrix product of quantised weights on Arm CPUs that multiply 2 x 8 by 8 x 2 bytes at once: I8MM,
// as on Neoverse V1 and Cortex-A710 and later (quantized_tiles-inl.h). Elsewhere this file is
// empty. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/engine/model/cpu/kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/model/cpu/kernels/matmul_quantized_matrix.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/model/cpu/kernels/lanes-inl.h"
#include "common/engine/model/cpu/kernels/store_output-inl.h"

#if HWY_TARGET == HWY_NEON
HWY_PUSH_ATTRIBUTES("arch=armv8.2-a+crypto+dotprod+i8mm")
namespace outrider::HWY_NAMESPACE {
#define OUTRIDER_DOT_PRODUCTS
#define OUTRIDER_BYTE_MATRICES
namespace {
#include "common/engine/model/cpu/kernels/group_sums-inl.h"
#include "common/engine/model/cpu/kernels/group_tiles-inl.h"
#include "common/engine/model/cpu/kernels/quantized_tiles-inl.h"
}  // namespace
#undef OUTRIDER_BYTE_MATRICES
#undef OUTRIDER_DOT_PRODUCTS

void matmul_quantized_matrix(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                             const MatmulOutput& y) {
  multiply_quantized(weights, x, part, y);
}

}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE && defined(__aarch64__)
namespace outrider {

MatmulFunction matmul_quantized_matrix() {
  return &N_NEON::matmul_quantized_matrix;
}

}  // namespace outrider
#endif  // HWY_ONCE

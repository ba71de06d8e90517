// Matrix product of quantised weights on CPUs that sum four products of bytes at once: AVX-512
// VNNI, AVX-VNNI, SDOT (quantized_tiles-inl.h). Highway 1.0.3 has no targets for them, so this file
// sets the attributes, and matmul_quantized() checks the CPU. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/engine/model/cpu/kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/model/cpu/kernels/matmul_quantized_dot.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/model/cpu/kernels/lanes-inl.h"
#include "common/engine/model/cpu/kernels/store_output-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#elif HWY_TARGET == HWY_AVX2
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avxvnni")
#elif HWY_TARGET == HWY_NEON
HWY_PUSH_ATTRIBUTES("arch=armv8.2-a+crypto+dotprod")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
#define OUTRIDER_DOT_PRODUCTS
namespace {
#include "common/engine/model/cpu/kernels/group_sums-inl.h"
#include "common/engine/model/cpu/kernels/group_tiles-inl.h"
#include "common/engine/model/cpu/kernels/quantized_tiles-inl.h"
}  // namespace
#undef OUTRIDER_DOT_PRODUCTS

void matmul_quantized_dot(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                          const MatmulOutput& y) {
  multiply_quantized(weights, x, part, y);
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

MatmulFunction matmul_quantized_dot(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, matmul_quantized_dot);
}

}  // namespace outrider
#endif  // HWY_ONCE

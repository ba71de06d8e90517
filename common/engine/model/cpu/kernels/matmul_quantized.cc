// Matrix product of quantised weights on any CPU with AVX2 or NEON (quantized_tiles-inl.h).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/engine/model/cpu/kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/model/cpu/kernels/matmul_quantized.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/model/cpu/kernels/lanes-inl.h"
#include "common/engine/model/cpu/kernels/store_output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE && HWY_TARGET != HWY_AVX3
namespace {
#include "common/engine/model/cpu/kernels/group_sums-inl.h"
#include "common/engine/model/cpu/kernels/group_tiles-inl.h"
#include "common/engine/model/cpu/kernels/quantized_tiles-inl.h"
}  // namespace

void matmul_quantized(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                      const MatmulOutput& y) {
  multiply_quantized(weights, x, part, y);
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

MatmulFunction matmul_quantized(VectorTarget target) {
  switch (target) {
    case VectorTarget::kAvx2Vnni:
    case VectorTarget::kNeonDot:
      return matmul_quantized_dot(target);
    case VectorTarget::kAvx512:
#if defined(__x86_64__)
      if (__builtin_cpu_supports("avx512vnni")) return matmul_quantized_dot(target);
#endif
      break;
    case VectorTarget::kNeonI8mm:
#if defined(__aarch64__)
      return matmul_quantized_matrix();
#endif
    case VectorTarget::kAvx2:
    case VectorTarget::kNeon:
      break;
  }
#if defined(__x86_64__)
  return &N_AVX2::matmul_quantized;
#else
  return &N_NEON::matmul_quantized;
#endif
}

}  // namespace outrider
#endif  // HWY_ONCE

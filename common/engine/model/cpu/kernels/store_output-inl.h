// Stores a matrix product's sums, for all weight types. SPDX-License-Identifier: Apache-2.0

// Included once per instruction set (see vector_targets.h), so no #pragma once.
#if defined(OUTRIDER_STORE_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OUTRIDER_STORE_OUTPUT_INL_H_
#undef OUTRIDER_STORE_OUTPUT_INL_H_
#else
#define OUTRIDER_STORE_OUTPUT_INL_H_
#endif

#include <cstdint>

#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

HWY_INLINE void store_output(const MatmulOutput& y, std::int64_t row, std::int64_t n, float sum) {
  float* to = y.y + row * y.stride + n;
  if (y.bias != nullptr) sum = sum + y.bias[n];
  *to = y.add ? *to + sum : sum;
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard

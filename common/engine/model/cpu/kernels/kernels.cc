// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/kernels/kernels.h"

#include "common/base/status.h"
#include "common/engine/model/cpu/kernels/matmul.h"
#include "common/engine/model/cpu/kernels/rowwise.h"

namespace outrider {
namespace {

template <VectorTarget kTarget>
void matmul(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
            const MatmulOutput& y) {
  static const MatmulFunction product_float = matmul_float(kTarget);
  static const MatmulFunction product_quantized = matmul_quantized(kTarget);
  (weights.type == WeightType::kQuantized ? product_quantized : product_float)(weights, x, part, y);
}

template <VectorTarget kTarget>
const Kernels& table() {
  static const Kernels kernels{.target = kTarget,
                               .matmul = &matmul<kTarget>,
                               .quantize_row = quantize_row(kTarget),
                               .quantize_weights = quantize_weights(kTarget),
                               .rms_norm = rms_norm(kTarget),
                               .layer_norm = layer_norm(kTarget),
                               .silu_multiply = silu_multiply(kTarget),
                               .gelu_multiply = gelu_multiply(kTarget),
                               .gelu_tanh_multiply = gelu_tanh_multiply(kTarget),
                               .relu_multiply = relu_multiply(kTarget),
                               .soft_cap = soft_cap(kTarget),
                               .attention = attention(kTarget),
                               .combine_attention = combine_attention(kTarget)};
  return kernels;
}

}  // namespace

const Kernels& kernels_for(VectorTarget target) {
  switch (target) {
    case VectorTarget::kAvx2:
      return table<VectorTarget::kAvx2>();
    case VectorTarget::kAvx2Vnni:
      return table<VectorTarget::kAvx2Vnni>();
    case VectorTarget::kAvx512:
      return table<VectorTarget::kAvx512>();
    case VectorTarget::kNeon:
      return table<VectorTarget::kNeon>();
    case VectorTarget::kNeonDot:
      return table<VectorTarget::kNeonDot>();
    case VectorTarget::kNeonI8mm:
      return table<VectorTarget::kNeonI8mm>();
  }
  OUTRIDER_CHECK(false);
}

}  // namespace outrider

// Selects the kernels for single rows for an instruction set; see kernels.h for their meaning.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

using QuantizeRowFunction = decltype(Kernels::quantize_row);
using QuantizeWeightsFunction = decltype(Kernels::quantize_weights);
using RmsNormFunction = decltype(Kernels::rms_norm);
using LayerNormFunction = decltype(Kernels::layer_norm);
using SoftCapFunction = decltype(Kernels::soft_cap);
using AttentionFunction = decltype(Kernels::attention);
using CombineAttentionFunction = decltype(Kernels::combine_attention);

QuantizeRowFunction quantize_row(VectorTarget target);
QuantizeWeightsFunction quantize_weights(VectorTarget target);
RmsNormFunction rms_norm(VectorTarget target);
LayerNormFunction layer_norm(VectorTarget target);
ActivationFunction silu_multiply(VectorTarget target);
ActivationFunction gelu_multiply(VectorTarget target);
ActivationFunction gelu_tanh_multiply(VectorTarget target);
ActivationFunction relu_multiply(VectorTarget target);
SoftCapFunction soft_cap(VectorTarget target);
AttentionFunction attention(VectorTarget target);
CombineAttentionFunction combine_attention(VectorTarget target);

}  // namespace outrider

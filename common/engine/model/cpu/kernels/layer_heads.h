// Small heads on the residual stream between two layers, in the forms that the kernels take: early
// exits (common/decoding/exits), for a model that computes them itself.
//
//   adapted = h + up(silu(down(rms_norm(h) * norm)))      h: the row's residual stream
//   logits  = output(rms_norm(adapted) * final_norm)
//
// Thread rule: values. Ownership: they only point to matrices and norms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

struct LayerHead {
  std::int32_t layer = 0;            // layers passed: 1 .. num_layers - 1
  std::span<const float> norm = {};  // [hidden]; empty: adapted = h
  WeightMatrix down = {};            // [inner, hidden]
  WeightMatrix up = {};              // [hidden, inner]
  WeightMatrix output = {};          // [tokens, hidden], kQuantized
};

struct LayerHeads {
  float epsilon = 0;                       // of the norms
  std::span<const float> final_norm = {};  // [hidden]
  std::vector<LayerHead> heads = {};       // by layer, rising
};

}  // namespace outrider

// A model's weights as libtorch tensors. Includes ATen: for the torch backend's own files only.
//
// Thread rule: immutable after loading. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "common/engine/model/format/model_files.h"

namespace outrider {

// y = x * weight^T + bias. weight: [out, in]; bias: [out] f32, undefined if there is none.
struct TorchLinear {
  at::Tensor weight;
  at::Tensor bias;
};

struct TorchLayer {
  at::Tensor input_norm;      // [hidden] f32
  at::Tensor attention_norm;  // [hidden] f32, before the MLP
  at::Tensor q_norm;          // [head_dim] f32, or undefined
  at::Tensor k_norm;
  TorchLinear q, k, v, o, gate, up, down;
  Position window = 0;
};

struct TorchWeights {
  at::Tensor embedding;  // [vocab, hidden] f32 or as computed
  std::vector<TorchLayer> layers;
  at::Tensor final_norm;
  TorchLinear head;
  at::Tensor head_tokens;  // [rows of head] int64: their tokens; undefined: all
};

// Matrices in `dtype`, vectors in f32, on `device`. On the cpu, f32 matrices stay mapped if the
// file has them in the model's order of rows; `files` must outlive them. Throws libtorch's
// exceptions.
TorchWeights load_torch_weights(const ModelFiles& files, at::ScalarType dtype, at::Device device);

}  // namespace outrider

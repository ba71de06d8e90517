// A trainable model in libtorch, for the families that Outrider runs: RMSNorm, rotary positions
// (half split, as in Hugging Face), grouped-query attention, SwiGLU. The config says whether it has
// biases, norms of query and key heads, an output matrix of its own, or a shortlist of it.
//
// Parameters are f32; products run in `compute` (f32, or bf16 with f32 sums inside). Query, key and
// value weights are one tensor, and so are gate and up; state() splits them under Hugging Face's
// names.
//
// Thread rule: one thread. Errors of libtorch are exceptions; train/*.cc catch them at the border.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <vector>

#include "adapters/train/llama_layer.h"
#include "common/engine/model/format/config.h"

namespace outrider {

class Llama final {
 public:
  // Random weights from `seed` (llama_layer.h), embedding and output matrix with deviation 0.02.
  Llama(const ModelConfig& config, at::ScalarType compute, std::uint64_t seed);

  const ModelConfig& config() const { return config_; }
  at::ScalarType compute() const { return compute_; }
  std::int64_t num_parameters() const;

  // ids: [batch, length] int64 -> [batch * length, hidden], normed, in the compute type.
  // starts: the first position that each position sees, as in fused_attention.
  at::Tensor hidden(const at::Tensor& ids, const at::Tensor& starts = {}) const;
  // rows: [n, hidden] -> [n, head_size], in the compute type. With a shortlist (the config's
  // head_tokens) column i is head_tokens[i].
  at::Tensor logits(const at::Tensor& rows) const;

  // Stops training of the embedding and the output matrix: they are no longer in parameters().
  void freeze_embedding();
  // The most positions that a sequence may have: the context, or a shorter sliding window.
  std::int64_t longest() const;

  // Every parameter, in a fixed order; leaves that require gradients.
  const NamedTensors& parameters() const { return parameters_; }

  // The weights under Hugging Face's names, f32; views where possible.
  NamedTensors state() const;
  // Copies the tensors of state() into the parameters. Throws if one is missing or has another
  // shape.
  void load_state(const NamedTensors& tensors);

 private:
  at::Tensor output_matrix() const;

  ModelConfig config_;
  at::ScalarType compute_;
  at::Tensor embedding_;    // [vocab, hidden]; also the output matrix if head_ is undefined
  at::Tensor head_;         // [vocab, hidden]
  at::Tensor head_tokens_;  // int64; undefined: all
  at::Tensor frozen_;       // the output matrix in the compute type, if it is frozen
  std::vector<LlamaLayer> layers_;
  at::Tensor norm_;
  at::Tensor cosine_, sine_;  // [max_positions, head_dim / 2] f32
  NamedTensors parameters_;
};

}  // namespace outrider

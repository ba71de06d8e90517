// A Llama-architecture model in libtorch that can be trained: RMSNorm, rotary positions (half
// split, as in Hugging Face), grouped-query attention, SwiGLU, tied embeddings.
//
// Parameters are f32; products run in `compute` (f32, or bf16 with f32 sums inside). Query, key and
// value weights are one tensor, as are gate and up; state() takes them apart under the names of
// Hugging Face.
//
// Thread rule: one thread. Errors of libtorch are exceptions; train/*.cc catch them at the border.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/model/format/config.h"

namespace outrider {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Keys and values of decoded tokens. Room for `capacity` positions of `batch` sequences.
struct DecodeCache {
  DecodeCache(const ModelConfig& config, at::ScalarType type, std::int64_t batch,
              std::int64_t capacity);

  std::int64_t position = 0;
  std::vector<at::Tensor> keys, values;  // by layer: [batch, kv_heads, capacity, head_dim]
};

class Llama final {
 public:
  // Random weights from `seed`: normal with deviation 0.02, residual outputs by 1/sqrt(2 layers).
  // config: architecture "llama", tied embeddings, no biases, plain rotary positions.
  Llama(const ModelConfig& config, at::ScalarType compute, std::uint64_t seed);

  const ModelConfig& config() const { return config_; }
  at::ScalarType compute() const { return compute_; }
  std::int64_t num_parameters() const;

  // ids: [batch, length] int64 -> [batch * length, hidden], normed, in the compute type.
  // starts: the first position that each sees, as in fused_attention.
  at::Tensor hidden(const at::Tensor& ids, const at::Tensor& starts = {}) const;
  // rows: [n, hidden] -> [n, vocab], in the compute type.
  at::Tensor logits(const at::Tensor& rows) const;

  // Decoding without gradients. ids: [batch, n] int64, all rows at the cache's position, which
  // moves on by n -> [batch, hidden], the last token's hidden state, normed. n > 1 only at position
  // 0.
  at::Tensor decode(const at::Tensor& ids, DecodeCache& cache) const;

  // Every parameter, in a fixed order; leaves that require gradients.
  const NamedTensors& parameters() const { return parameters_; }

  // The weights under Hugging Face's names, f32; views where possible.
  NamedTensors state() const;
  // Takes the tensors of state() over. Throws if one is missing or has another shape.
  void load_state(const NamedTensors& tensors);

 private:
  struct Layer {
    at::Tensor attention_norm;  // [hidden]
    at::Tensor qkv;             // [(heads + 2 kv_heads) head_dim, hidden]
    at::Tensor out;             // [hidden, heads head_dim]
    at::Tensor ffn_norm;        // [hidden]
    at::Tensor gate_up;         // [2 ffn, hidden]
    at::Tensor down;            // [hidden, ffn]
  };

  // qkv: [batch n, q + 2 kv] -> [batch n, q]; adds n positions to the layer's cache.
  at::Tensor attend(const at::Tensor& qkv, std::int64_t batch, std::size_t layer,
                    DecodeCache& cache) const;

  ModelConfig config_;
  at::ScalarType compute_;
  at::Tensor embedding_;  // [vocab, hidden], also the output head
  std::vector<Layer> layers_;
  at::Tensor norm_;
  at::Tensor cosine_, sine_;  // [max_positions, head_dim / 2] f32
  NamedTensors parameters_;
};

}  // namespace outrider

// One layer of a trainable model (llama.h): its parameters and all its steps except attention.
//
// Thread rule: one thread. Errors of libtorch are exceptions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/model/format/config.h"

namespace outrider {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Makes leaves that require gradients and lists them in order. Random ones are a function of seed
// and order.
class ParameterMaker final {
 public:
  ParameterMaker(NamedTensors& parameters, std::uint64_t seed);

  at::Tensor normal(const std::string& name, std::int64_t rows, std::int64_t columns,
                    double deviation);
  at::Tensor ones(const std::string& name, std::int64_t size);
  at::Tensor zeros(const std::string& name, std::int64_t size);

 private:
  at::Tensor add(const std::string& name, at::Tensor tensor);

  NamedTensors& parameters_;
  at::Generator generator_;
};

class LlamaLayer final {
 public:
  // Weights normal with deviation 0.02, residual outputs by 1/sqrt(2 layers); biases zero.
  LlamaLayer(const ModelConfig& config, at::ScalarType compute, std::int32_t index,
             ParameterMaker& parameters);

  // x: [n, hidden] f32, the residual stream -> [n, q + 2 kv] in the compute type, with normed heads
  // if the family has them.
  at::Tensor project(const at::Tensor& x) const;
  // x: the same; attended: [n, q], the result of attention -> [n, hidden], the layer's output.
  at::Tensor close(const at::Tensor& x, const at::Tensor& attended) const;

  // Appends the weights under Hugging Face's names, as views of the parameters.
  void add_state(NamedTensors& state) const;

 private:
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;

  ModelConfig config_;
  at::ScalarType compute_;
  std::int32_t index_;
  at::Tensor attention_norm_;                                  // [hidden]
  at::Tensor qkv_;                                             // [q + 2 kv, hidden]
  at::Tensor out_;                                             // [hidden, q]
  at::Tensor ffn_norm_;                                        // [hidden]
  at::Tensor gate_up_;                                         // [2 ffn, hidden]
  at::Tensor down_;                                            // [hidden, ffn]
  at::Tensor qkv_bias_, out_bias_, gate_up_bias_, down_bias_;  // undefined if the model has none
  at::Tensor q_norm_, k_norm_;                                 // [head_dim], or undefined
};

}  // namespace outrider

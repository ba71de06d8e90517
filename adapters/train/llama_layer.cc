// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/llama_layer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "adapters/train/fused.h"
#include "common/engine/model/format/architecture.h"

namespace outrider {

ParameterMaker::ParameterMaker(NamedTensors& parameters, std::uint64_t seed)
    : parameters_(parameters), generator_(at::detail::createCPUGenerator(seed)) {}

at::Tensor ParameterMaker::normal(const std::string& name, std::int64_t rows, std::int64_t columns,
                                  double deviation) {
  return add(name, at::empty({rows, columns}, at::kFloat).normal_(0, deviation, generator_));
}

at::Tensor ParameterMaker::ones(const std::string& name, std::int64_t size) {
  return add(name, at::ones({size}));
}

at::Tensor ParameterMaker::zeros(const std::string& name, std::int64_t size) {
  return add(name, at::zeros({size}));
}

at::Tensor ParameterMaker::add(const std::string& name, at::Tensor tensor) {
  tensor.set_requires_grad(true);
  parameters_.emplace_back(name, tensor);
  return tensor;
}

LlamaLayer::LlamaLayer(const ModelConfig& config, at::ScalarType compute, std::int32_t index,
                       ParameterMaker& parameters)
    : config_(config), compute_(compute), index_(index) {
  const std::int64_t hidden = config.hidden_size, ffn = config.intermediate_size;
  const std::int64_t qkv_size = config.q_size() + 2 * config.kv_size();
  const double residual = 0.02 / std::sqrt(2.0 * config.num_layers);
  const std::string at = "layers." + std::to_string(index) + ".";
  const auto bias = [&](bool wanted, const char* name, std::int64_t size) {
    return wanted ? parameters.zeros(at + name, size) : at::Tensor();
  };
  attention_norm_ = parameters.ones(at + "attention_norm", hidden);
  qkv_ = parameters.normal(at + "qkv", qkv_size, hidden, 0.02);
  out_ = parameters.normal(at + "out", hidden, config.q_size(), residual);
  ffn_norm_ = parameters.ones(at + "ffn_norm", hidden);
  gate_up_ = parameters.normal(at + "gate_up", 2 * ffn, hidden, 0.02);
  down_ = parameters.normal(at + "down", hidden, ffn, residual);
  qkv_bias_ = bias(config.qkv_bias, "qkv_bias", qkv_size);
  out_bias_ = bias(config.o_bias, "out_bias", hidden);
  gate_up_bias_ = bias(config.mlp_bias, "gate_up_bias", 2 * ffn);
  down_bias_ = bias(config.mlp_bias, "down_bias", hidden);
  if (!config.qk_norm) return;
  q_norm_ = parameters.ones(at + "q_norm", config.head_dim);
  k_norm_ = parameters.ones(at + "k_norm", config.head_dim);
}

at::Tensor LlamaLayer::linear(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) const {
  if (!bias.defined()) return at::linear(x, weight.to(compute_));
  return at::linear(x, weight.to(compute_), bias.to(compute_));
}

at::Tensor LlamaLayer::project(const at::Tensor& x) const {
  const double epsilon = config_.rms_norm_eps;
  const at::Tensor qkv =
      linear(fused_rms_norm(x, attention_norm_, epsilon, compute_), qkv_, qkv_bias_);
  if (!config_.qk_norm) return qkv;
  const std::int64_t width = config_.q_size(), kv_width = config_.kv_size();
  const auto normed = [&](std::int64_t first, std::int64_t size, const at::Tensor& gain) {
    const at::Tensor heads = qkv.narrow(1, first, size).reshape({-1, config_.head_dim});
    return fused_rms_norm(heads.to(at::kFloat).contiguous(), gain, epsilon, compute_)
        .view({-1, size});
  };
  return at::cat({normed(0, width, q_norm_), normed(width, kv_width, k_norm_),
                  qkv.narrow(1, width + kv_width, kv_width)},
                 1);
}

at::Tensor LlamaLayer::close(const at::Tensor& x, const at::Tensor& attended) const {
  const at::Tensor middle = fused_residual(x, linear(attended, out_, out_bias_));
  at::Tensor y = fused_rms_norm(middle, ffn_norm_, config_.rms_norm_eps, compute_);
  y = fused_swiglu(linear(y, gate_up_, gate_up_bias_));
  return fused_residual(middle, linear(y, down_, down_bias_));
}

void LlamaLayer::add_state(NamedTensors& state) const {
  const std::int64_t width = config_.q_size(), kv_width = config_.kv_size();
  const std::int64_t ffn = config_.intermediate_size;
  const auto add = [&](ModelPart part, const at::Tensor& tensor) {
    if (tensor.defined()) state.emplace_back(weight_name(part, index_), tensor.detach());
  };
  // Rows [first, first + size) of a weight and its bias.
  const auto add_part = [&](ModelPart part, const at::Tensor& weight, const at::Tensor& bias,
                            std::int64_t first, std::int64_t size) {
    add(part, weight.narrow(0, first, size));
    if (!bias.defined()) return;
    state.emplace_back(bias_name(part, index_), bias.detach().narrow(0, first, size));
  };
  add(ModelPart::kAttentionNorm, attention_norm_);
  add_part(ModelPart::kQuery, qkv_, qkv_bias_, 0, width);
  add_part(ModelPart::kKey, qkv_, qkv_bias_, width, kv_width);
  add_part(ModelPart::kValue, qkv_, qkv_bias_, width + kv_width, kv_width);
  add(ModelPart::kQueryNorm, q_norm_);
  add(ModelPart::kKeyNorm, k_norm_);
  add_part(ModelPart::kAttentionOutput, out_, out_bias_, 0, config_.hidden_size);
  add(ModelPart::kMlpNorm, ffn_norm_);
  add_part(ModelPart::kGate, gate_up_, gate_up_bias_, 0, ffn);
  add_part(ModelPart::kUp, gate_up_, gate_up_bias_, ffn, ffn);
  add_part(ModelPart::kDown, down_, down_bias_, 0, config_.hidden_size);
}

}  // namespace outrider

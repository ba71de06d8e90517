// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/llama.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <stdexcept>
#include <unordered_map>

#include "adapters/train/fused.h"
#include "common/model/format/architecture.h"

namespace outrider {

Llama::Llama(const ModelConfig& config, at::ScalarType compute, std::uint64_t seed)
    : config_(config), compute_(compute) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto parameter = [&](const std::string& name, at::Tensor tensor) {
    tensor.set_requires_grad(true);
    parameters_.emplace_back(name, tensor);
    return tensor;
  };
  const auto normal = [&](std::int64_t rows, std::int64_t columns, double deviation) {
    return at::empty({rows, columns}, at::kFloat).normal_(0, deviation, generator);
  };
  const std::int64_t hidden = config.hidden_size, ffn = config.intermediate_size;
  const double residual = 0.02 / std::sqrt(2.0 * config.num_layers);
  embedding_ = parameter("embedding", normal(config.vocab_size, hidden, 0.02));
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    const std::string at = "layers." + std::to_string(i) + ".";
    Layer layer;
    layer.attention_norm = parameter(at + "attention_norm", at::ones({hidden}));
    layer.qkv = parameter(at + "qkv", normal(config.q_size() + 2 * config.kv_size(), hidden, 0.02));
    layer.out = parameter(at + "out", normal(hidden, config.q_size(), residual));
    layer.ffn_norm = parameter(at + "ffn_norm", at::ones({hidden}));
    layer.gate_up = parameter(at + "gate_up", normal(2 * ffn, hidden, 0.02));
    layer.down = parameter(at + "down", normal(hidden, ffn, residual));
    layers_.push_back(std::move(layer));
  }
  norm_ = parameter("norm", at::ones({hidden}));

  std::vector<float> frequencies = rope_frequencies(config.rope, config.head_dim);
  const at::Tensor frequency = at::tensor(frequencies, at::kFloat).to(at::kDouble);
  const at::Tensor angle = at::outer(
      at::arange(static_cast<std::int64_t>(config.max_positions), at::kDouble), frequency);
  cosine_ = angle.cos().to(at::kFloat);
  sine_ = angle.sin().to(at::kFloat);
}

std::int64_t Llama::num_parameters() const {
  std::int64_t count = 0;
  for (const auto& [name, parameter] : parameters_) count += parameter.numel();
  return count;
}

at::Tensor Llama::hidden(const at::Tensor& ids, const at::Tensor& starts) const {
  if (ids.size(1) > config_.max_positions) throw std::invalid_argument("sequence too long");
  const AttentionShape shape{ids.size(0), ids.size(1), config_.num_heads, config_.num_kv_heads,
                             config_.head_dim};
  const double epsilon = config_.rms_norm_eps;
  at::Tensor x = at::embedding(embedding_, ids.flatten());
  for (const Layer& layer : layers_) {
    at::Tensor y = fused_rms_norm(x, layer.attention_norm, epsilon, compute_);
    y = fused_attention(at::linear(y, layer.qkv.to(compute_)), cosine_, sine_, shape, starts);
    x = fused_residual(x, at::linear(y, layer.out.to(compute_)));
    y = fused_rms_norm(x, layer.ffn_norm, epsilon, compute_);
    y = fused_swiglu(at::linear(y, layer.gate_up.to(compute_)));
    x = fused_residual(x, at::linear(y, layer.down.to(compute_)));
  }
  return fused_rms_norm(x, norm_, epsilon, compute_);
}

at::Tensor Llama::logits(const at::Tensor& rows) const {
  return at::linear(rows, embedding_.to(compute_));
}

NamedTensors Llama::state() const {
  NamedTensors state;
  const std::int64_t width = config_.q_size(), kv_width = config_.kv_size();
  const std::int64_t ffn = config_.intermediate_size;
  const auto add = [&state](ModelPart part, std::int32_t layer, const at::Tensor& tensor) {
    state.emplace_back(weight_name(part, layer), tensor);
  };
  add(ModelPart::kEmbedding, 0, embedding_.detach());
  for (std::int32_t i = 0; i < config_.num_layers; ++i) {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    const at::Tensor qkv = layer.qkv.detach(), gate_up = layer.gate_up.detach();
    add(ModelPart::kAttentionNorm, i, layer.attention_norm.detach());
    add(ModelPart::kQuery, i, qkv.narrow(0, 0, width));
    add(ModelPart::kKey, i, qkv.narrow(0, width, kv_width));
    add(ModelPart::kValue, i, qkv.narrow(0, width + kv_width, kv_width));
    add(ModelPart::kAttentionOutput, i, layer.out.detach());
    add(ModelPart::kMlpNorm, i, layer.ffn_norm.detach());
    add(ModelPart::kGate, i, gate_up.narrow(0, 0, ffn));
    add(ModelPart::kUp, i, gate_up.narrow(0, ffn, ffn));
    add(ModelPart::kDown, i, layer.down.detach());
  }
  add(ModelPart::kFinalNorm, 0, norm_.detach());
  return state;
}

void Llama::load_state(const NamedTensors& tensors) {
  std::unordered_map<std::string, at::Tensor> by_name(tensors.begin(), tensors.end());
  for (const auto& [name, view] : state()) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) throw std::invalid_argument("tensor " + name + " is missing");
    if (found->second.sizes() != view.sizes()) {
      throw std::invalid_argument("tensor " + name + " has another shape than config.json says");
    }
    at::Tensor(view).copy_(found->second);  // state() gives views of the parameters
  }
}

}  // namespace outrider

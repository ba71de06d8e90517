// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/llama.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "adapters/train/fused.h"
#include "common/engine/model/format/architecture.h"

namespace outrider {

Llama::Llama(const ModelConfig& config, at::ScalarType compute, std::uint64_t seed)
    : config_(config), compute_(compute) {
  ParameterMaker parameters(parameters_, seed);
  embedding_ = parameters.normal("embedding", config.vocab_size, config.hidden_size, 0.02);
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    layers_.emplace_back(config, compute, i, parameters);
  }
  norm_ = parameters.ones("norm", config.hidden_size);
  if (!config.tied_embeddings) {
    head_ = parameters.normal("head", config.vocab_size, config.hidden_size, 0.02);
  }
  if (!config.head_tokens.empty()) {
    head_tokens_ = at::tensor(
        std::vector<std::int64_t>(config.head_tokens.begin(), config.head_tokens.end()), at::kLong);
  }

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

std::int64_t Llama::longest() const {
  std::int64_t longest = config_.max_positions;
  for (const Position window : config_.windows) {
    if (window > 0) longest = std::min<std::int64_t>(longest, window);
  }
  return longest;
}

at::Tensor Llama::hidden(const at::Tensor& ids, const at::Tensor& starts) const {
  if (ids.size(1) > config_.max_positions) throw std::invalid_argument("sequence too long");
  if (!starts.defined() && ids.size(1) > longest()) {
    throw std::invalid_argument("sequence longer than the model's sliding window");
  }
  const AttentionShape shape{ids.size(0), ids.size(1), config_.num_heads, config_.num_kv_heads,
                             config_.head_dim};
  at::Tensor x = at::embedding(embedding_, ids.flatten());
  for (const LlamaLayer& layer : layers_) {
    x = layer.close(x, fused_attention(layer.project(x), cosine_, sine_, shape, starts));
  }
  return fused_rms_norm(x, norm_, config_.rms_norm_eps, compute_);
}

at::Tensor Llama::output_matrix() const {
  const at::Tensor matrix = head_.defined() ? head_ : embedding_;
  return (head_tokens_.defined() ? matrix.index_select(0, head_tokens_) : matrix).to(compute_);
}

at::Tensor Llama::logits(const at::Tensor& rows) const {
  return at::linear(rows, frozen_.defined() ? frozen_ : output_matrix());
}

void Llama::freeze_embedding() {
  std::erase_if(parameters_,
                [](const auto& one) { return one.first == "embedding" || one.first == "head"; });
  embedding_.set_requires_grad(false);
  if (head_.defined()) head_.set_requires_grad(false);
  at::NoGradGuard no_grad;
  frozen_ = output_matrix().contiguous();
}

NamedTensors Llama::state() const {
  NamedTensors state;
  const auto add = [&state](ModelPart part, const at::Tensor& tensor) {
    state.emplace_back(weight_name(part), tensor.detach());
  };
  add(ModelPart::kEmbedding, embedding_);
  for (const LlamaLayer& layer : layers_) layer.add_state(state);
  add(ModelPart::kFinalNorm, norm_);
  if (head_.defined()) add(ModelPart::kHead, head_);
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
  if (frozen_.defined()) {
    at::NoGradGuard no_grad;
    frozen_ = output_matrix().contiguous();
  }
}

}  // namespace outrider

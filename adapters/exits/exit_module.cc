// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/exit_module.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "adapters/train/fused.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {
namespace {

at::Tensor widened_tensor(const TensorView& view) {
  at::Tensor tensor = at::empty(view.shape, at::kFloat);
  widen(view, 0, {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())});
  return tensor;
}

std::vector<float> floats_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const auto* values = flat.const_data_ptr<float>();
  return {values, values + flat.numel()};
}

std::vector<std::uint16_t> bf16_of(const at::Tensor& tensor) {
  const std::vector<float> values = floats_of(tensor);
  std::vector<std::uint16_t> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), to_bf16);
  return narrow;
}

}  // namespace

FrozenHead frozen_head(const ModelFiles& target, at::ScalarType compute) {
  return {widened_tensor(target.weights.at(weight_name(ModelPart::kFinalNorm))),
          widened_tensor(target.weights.at(weight_name(output_part(target.config)))).to(compute),
          target.config.rms_norm_eps};
}

ExitModule::ExitModule(std::int32_t layer, std::int64_t hidden, std::int64_t bottleneck,
                       std::uint64_t seed)
    : layer_(layer) {
  auto generator = at::detail::createCPUGenerator(seed * 1000 + static_cast<std::uint64_t>(layer));
  norm_ = at::ones({hidden}, at::kFloat);
  down_ = at::empty({bottleneck, hidden}, at::kFloat)
              .normal_(0, 1 / std::sqrt(static_cast<double>(hidden)), generator);
  up_ = at::zeros({hidden, bottleneck}, at::kFloat);
  add_parameter("norm", norm_);
  add_parameter("down", down_);
  add_parameter("up", up_);
}

ExitModule::ExitModule(std::int32_t layer, const FrozenHead& head)
    : layer_(layer), head_(head.head.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true)) {
  add_parameter("head", head_);
}

void ExitModule::add_parameter(const char* name, at::Tensor& tensor) {
  tensor.set_requires_grad(true);
  parameters_.emplace_back("exits." + std::to_string(layer_) + "." + name, tensor);
}

at::Tensor ExitModule::logits(const at::Tensor& hidden, const FrozenHead& head) const {
  const at::ScalarType compute = head.head.scalar_type();
  if (head_.defined()) {
    return at::linear(fused_rms_norm(hidden, head.final_norm, head.epsilon, compute),
                      head_.to(compute));
  }
  const at::Tensor normed = fused_rms_norm(hidden, norm_, head.epsilon, compute);
  const at::Tensor inner = at::silu(at::linear(normed, down_.to(compute)));
  const at::Tensor adapted = hidden + at::linear(inner, up_.to(compute)).to(at::kFloat);
  return at::linear(fused_rms_norm(adapted, head.final_norm, head.epsilon, compute), head.head);
}

void ExitModule::load(const NamedTensors& tensors) {
  at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters_) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&, &key = name](const auto& one) { return one.first == key; });
    if (found == tensors.end() || found->second.sizes() != parameter.sizes()) {
      throw std::invalid_argument("checkpoint: " + name + " is missing or has another shape");
    }
    at::Tensor(parameter).copy_(found->second);
  }
}

ExitAdapter ExitModule::adapter() const {
  if (head_.defined()) return {.layer = layer_, .head = bf16_of(head_)};
  ExitAdapter adapter{.layer = layer_, .bottleneck = static_cast<std::int32_t>(down_.size(0))};
  adapter.norm = floats_of(norm_);
  adapter.down = bf16_of(down_);
  adapter.up = bf16_of(up_);
  return adapter;
}

at::Tensor exit_loss(const at::Tensor& logits, const ExitTargets& targets, ExitLoss loss,
                     double greedy_weight) {
  if (loss == ExitLoss::kCrossEntropy) return fused_cross_entropy(logits, targets.next);
  at::Tensor divergence =
      at::kl_div(at::log_softmax(logits.to(at::kFloat), -1), at::log_softmax(targets.logits, -1),
                 at::Reduction::Sum, /*log_target=*/true) /
      static_cast<double>(logits.size(0));
  if (greedy_weight == 0) return divergence;
  return divergence + fused_cross_entropy(logits, targets.logits.argmax(-1)) * greedy_weight;
}

}  // namespace outrider

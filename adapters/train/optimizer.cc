// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <unordered_map>

namespace outrider {

double learning_rate_at(const OptimizerOptions& options, std::int64_t step) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(options.warmup_steps);
  }
  const double span =
      std::max<double>(1, static_cast<double>(options.total_steps - options.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - options.warmup_steps) / span);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options.learning_rate * (options.final_fraction + (1 - options.final_fraction) * cosine);
}

AdamW::AdamW(const NamedTensors& parameters, const OptimizerOptions& options)
    : parameters_(parameters), options_(options) {
  groups_[0].weight_decay = options.weight_decay;
  for (const auto& [name, parameter] : parameters_) {
    Group& group = groups_[parameter.dim() >= 2 ? 0 : 1];
    first_.push_back(at::zeros_like(parameter.detach()));
    second_.push_back(at::zeros_like(parameter.detach()));
    group.parameters.push_back(parameter.detach());  // shares storage, records no gradient
    group.first.push_back(first_.back());
    group.second.push_back(second_.back());
    group.counts.push_back(at::zeros({}, at::kFloat));
  }
}

double AdamW::step() {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients[2];
  std::vector<at::Tensor> norms;
  for (const auto& [name, parameter] : parameters_) {
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter.detach());
    gradients[parameter.dim() >= 2 ? 0 : 1].push_back(gradient);
    norms.push_back(at::linalg_vector_norm(gradient));
  }
  const double norm = at::linalg_vector_norm(at::stack(norms)).item<double>();
  if (!std::isfinite(norm)) throw std::runtime_error("the gradient is not finite");
  const double scale = std::min(1.0, options_.max_gradient_norm / (norm + 1e-6));
  const double rate = learning_rate_at(options_, steps_done_);
  for (int i = 0; i < 2; ++i) {
    Group& group = groups_[i];
    if (group.parameters.empty()) continue;
    if (scale < 1.0) at::_foreach_mul_(gradients[i], scale);
    at::_foreach_add_(group.counts, 1);
    at::_fused_adamw_(group.parameters, gradients[i], group.first, group.second, {}, group.counts,
                      rate, options_.beta1, options_.beta2, group.weight_decay, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
  for (const auto& [name, parameter] : parameters_) at::Tensor(parameter).mutable_grad().reset();
  ++steps_done_;
  return norm;
}

NamedTensors AdamW::state() const {
  NamedTensors state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    state.emplace_back("first." + parameters_[i].first, first_[i]);
    state.emplace_back("second." + parameters_[i].first, second_[i]);
  }
  return state;
}

void AdamW::load_state(const NamedTensors& tensors, std::int64_t steps_done) {
  std::unordered_map<std::string, at::Tensor> by_name(tensors.begin(), tensors.end());
  for (const auto& [name, moment] : state()) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second.sizes() != moment.sizes()) {
      throw std::invalid_argument("checkpoint: " + name + " is missing or has another shape");
    }
    at::Tensor(moment).copy_(found->second);
  }
  steps_done_ = steps_done;
  for (Group& group : groups_) {
    for (at::Tensor& count : group.counts) count.fill_(static_cast<double>(steps_done));
  }
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/portable_math.h"

namespace outrider {
namespace {

ActivationFunction function_of(Activation activation, const Kernels& kernels) {
  switch (activation) {
    case Activation::kGelu:
      return kernels.gelu_multiply;
    case Activation::kGeluTanh:
      return kernels.gelu_tanh_multiply;
    case Activation::kRelu:
      return kernels.relu_multiply;
    case Activation::kSilu:
      break;
  }
  return kernels.silu_multiply;
}

std::size_t as_size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

// A score far below the best, or not comparable with it, counts as 0.
double share_of(double below_best) {
  return below_best >= -700.0 ? portable_exp(below_best) : 0.0;
}

}  // namespace

FeedForward::FeedForward(const ModelConfig& config, const Kernels& kernels, PassLoops& loops,
                         PassProducts& products)
    : config_(config),
      loops_(loops),
      products_(products),
      activate_(function_of(config.kinds.activation, kernels)),
      inner_(config.inner_size()),
      gathered_(config.hidden_size) {}

void FeedForward::grow(std::int64_t rows) {
  inner_.grow(rows, products_.is_quantized());
  up_.grow(as_size(rows * pad_to_lanes(inner_.widest)));
  if (config_.experts.count == 0) return;
  scores_.grow(as_size(rows * config_.experts.count));
  gathered_.grow(rows, products_.is_quantized());
  result_.grow(as_size(rows * gathered_.stride));
  routed_.resize(as_size(config_.experts.count));
}

Status FeedForward::run(LayerStore& layers, const CpuLayer& layer, std::int64_t index,
                        Activations& x, std::int64_t rows, const MatmulOutput& y) {
  if (layer.experts.empty()) {
    run_mlp({layer.gate, layer.up, layer.down}, PassProducts::input(x, rows), y);
    return {};
  }
  if (!y.add) std::fill_n(y.y, rows * y.stride, 0.0f);
  route(layer, x, rows);
  layers.choose_experts(index, chosen_);
  for (const std::int32_t e : chosen_) {
    OUTRIDER_ASSIGN_OR_RETURN(const CpuExpert* expert, layers.acquire_expert(index, e));
    run_expert(*expert, routed_[as_size(e)], x, y);
  }
  return {};
}

void FeedForward::run_mlp(const Mlp& mlp, const MatmulInput& x, const MatmulOutput& y) {
  const bool gated = mlp.gate.matrix.outputs > 0;
  inner_.narrow(mlp.down.matrix.inputs);
  loops_.run(inner_.count, PassProducts::kOutputGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto product = [&](const LinearWeights& weights, float* to) {
      products_.multiply({&weights, {to, inner_.stride, nullptr, false}}, x, {begin, end});
    };
    if (gated) product(mlp.gate, inner_.values.data());
    product(mlp.up, gated ? up_.data() : inner_.values.data());
    // Includes the padding: f(0) * 0 = 0.
    const std::int64_t count = pad_to_lanes(end - begin);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const std::int64_t at = r * inner_.stride + begin;
      activate_(inner_.values.data() + at, gated ? up_.data() + at : nullptr, count);
    }
  });
  products_.quantize_rows(inner_, x.rows);
  const PassProducts::Product down[] = {{&mlp.down, y}};
  products_.multiply(down, PassProducts::input(inner_, x.rows));
}

// Fills routed_ and chosen_.
void FeedForward::route(const CpuLayer& layer, Activations& x, std::int64_t rows) {
  const PassProducts::Product scores[] = {
      {&layer.router, {scores_.data(), config_.experts.count, nullptr, false}}};
  products_.multiply(scores, PassProducts::input(x, rows));
  for (std::vector<Routed>& list : routed_) list.clear();
  for (std::int64_t r = 0; r < rows; ++r) route_row(r);
  chosen_.clear();
  for (std::int32_t e = 0; e < config_.experts.count; ++e) {
    if (!routed_[as_size(e)].empty()) chosen_.push_back(e);
  }
}

// The highest scores, ties to the lower id; shares are the softmax over all experts, or over the
// chosen ones. Sums run in order of the ids.
void FeedForward::route_row(std::int64_t row) {
  const ExpertConfig& experts = config_.experts;
  float* scores = scores_.data() + row * experts.count;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::replace_if(
      scores, scores + experts.count, [](float score) { return std::isnan(score); }, kNever);
  ranked_.resize(as_size(experts.count));
  std::iota(ranked_.begin(), ranked_.end(), 0);
  std::stable_sort(ranked_.begin(), ranked_.end(),
                   [scores](std::int32_t a, std::int32_t b) { return scores[a] > scores[b]; });
  const double best = scores[ranked_[0]];
  std::sort(ranked_.begin(), ranked_.begin() + experts.used);
  shares_.resize(as_size(experts.count));
  double sum = 0;
  const auto add_to_sum = [&](std::int32_t e) {
    shares_[as_size(e)] = share_of(scores[e] - best);
    sum += shares_[as_size(e)];
  };
  if (experts.normalized) {
    std::for_each_n(ranked_.begin(), experts.used, add_to_sum);
  } else {
    for (std::int32_t e = 0; e < experts.count; ++e) add_to_sum(e);
  }
  for (std::int32_t i = 0; i < experts.used; ++i) {
    const std::size_t e = as_size(ranked_[as_size(i)]);
    routed_[e].push_back({row, static_cast<float>(shares_[e] / sum)});
  }
}

void FeedForward::run_expert(const CpuExpert& expert, const std::vector<Routed>& routed,
                             Activations& x, const MatmulOutput& y) {
  const auto count = static_cast<std::int64_t>(routed.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = routed[as_size(i)].row;
    std::copy_n(x.row(from), x.stride, gathered_.row(i));
    if (!products_.is_quantized()) continue;
    std::copy_n(x.quantized.data() + from * x.quantized_bytes, x.quantized_bytes,
                gathered_.quantized.data() + i * x.quantized_bytes);
  }
  run_mlp({expert.gate, expert.up, expert.down}, PassProducts::input(gathered_, count),
          {result_.data(), gathered_.stride, nullptr, false});
  loops_.run(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto [row, share] = routed[as_size(i)];
      const float* from = result_.data() + i * gathered_.stride;
      float* to = y.y + row * y.stride;
      for (std::int64_t k = 0; k < gathered_.count; ++k) to[k] = to[k] + share * from[k];
    }
  });
}

}  // namespace outrider

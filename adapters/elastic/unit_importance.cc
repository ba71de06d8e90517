// SPDX-License-Identifier: Apache-2.0
#include "adapters/elastic/unit_importance.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>

#include "adapters/train/border.h"
#include "adapters/train/trainer.h"

namespace outrider {
namespace {

// The parameters whose columns are units' outputs.
struct OutputMatrices {
  std::vector<at::Tensor> down;  // [layers]: [hidden, neurons]
  std::vector<at::Tensor> out;   // [layers]: [hidden, heads * head_dim]
};

OutputMatrices take_output_matrices(const Llama& model) {
  OutputMatrices matrices;
  for (const auto& [name, parameter] : model.parameters()) {
    if (name.ends_with(".down")) {
      matrices.down.push_back(parameter);
    } else if (name.ends_with(".out")) {
      matrices.out.push_back(parameter);
    } else {
      at::Tensor(parameter).set_requires_grad(false);
    }
  }
  return matrices;
}

// One document; every learnt token is predicted.
Batch batch_of(const Document& document) {
  const auto length = static_cast<std::int64_t>(document.tokens.size());
  std::vector<std::int64_t> ids(document.tokens.begin(), document.tokens.end());
  std::vector<std::int64_t> places, targets;
  for (std::size_t i = 1; i < document.tokens.size(); ++i) {
    if (document.learnt[i] == 0) continue;
    places.push_back(static_cast<std::int64_t>(i) - 1);
    targets.push_back(document.tokens[i]);
  }
  return {at::tensor(ids, at::kLong).view({1, length}), at::tensor(targets, at::kLong),
          at::tensor(places, at::kLong), at::zeros({length}, at::kLong)};
}

// Adds the magnitudes of the gates' gradients; each gate has `width` columns.
void add_gates(at::Tensor& weight, std::int64_t width, double tokens, std::vector<double>& sums) {
  const at::Tensor gates =
      (weight.detach() * weight.grad()).sum(0).view({-1, width}).sum(1).to(at::kDouble).abs();
  const at::Tensor kept = gates.contiguous();
  sums.resize(static_cast<std::size_t>(kept.numel()));
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] += kept.const_data_ptr<double>()[i] * tokens;
  weight.mutable_grad() = at::Tensor();
}

}  // namespace

Result<std::vector<LayerImportance>> unit_importance(
    const Llama& model, const std::vector<Document>& documents,
    const std::function<void(std::int64_t)>& on_tokens) {
  return guarded([&]() -> Result<std::vector<LayerImportance>> {
    OutputMatrices matrices = take_output_matrices(model);
    std::vector<LayerImportance> importance(matrices.down.size());
    std::int64_t done = 0;
    for (const Document& document : documents) {
      const Batch batch = batch_of(document);
      done += batch.ids.numel();
      if (batch.targets.numel() == 0) continue;
      next_token_loss(model, batch).backward();
      const auto tokens = static_cast<double>(batch.targets.numel());
      for (std::size_t i = 0; i < importance.size(); ++i) {
        add_gates(matrices.down[i], 1, tokens, importance[i].neurons);
        add_gates(matrices.out[i], group_columns(model.config()), tokens, importance[i].kv_groups);
      }
      on_tokens(done);
    }
    for (const LayerImportance& layer : importance) {
      for (const double value : layer.neurons) {
        if (!std::isfinite(value)) return failed_precondition("a gradient is not finite");
      }
    }
    return importance;
  });
}

}  // namespace outrider

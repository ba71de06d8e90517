// SPDX-License-Identifier: Apache-2.0
#include "adapters/distill/label_targets.h"

#include <algorithm>
#include <numeric>

namespace outrider {
namespace {

// Rows of probabilities, at temperature 1, at another one.
at::Tensor at_temperature(const at::Tensor& probabilities, double temperature) {
  const at::Tensor powers = probabilities.pow(1 / temperature);
  return powers / powers.sum(1, true).clamp_min(1e-9);
}

// KL of the teacher's probabilities and the student's, summed over rows.
at::Tensor divergence(const at::Tensor& wanted, const at::Tensor& log_probabilities) {
  return (wanted * (wanted.clamp_min(1e-30).log() - log_probabilities)).sum();
}

}  // namespace

Result<std::vector<std::int32_t>> logit_columns(const std::vector<TokenId>& tokens,
                                                std::int32_t vocab_size) {
  std::vector<std::int32_t> columns(static_cast<std::size_t>(vocab_size), -1);
  if (tokens.empty()) std::iota(columns.begin(), columns.end(), 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size) {
      return invalid_argument("the shortlist holds token " + std::to_string(tokens[i]) +
                              ", the labels are of " + std::to_string(vocab_size) + " tokens");
    }
    columns[static_cast<std::size_t>(tokens[i])] = static_cast<std::int32_t>(i);
  }
  return columns;
}

LabelTargets label_targets(const std::vector<std::int64_t>& columns,
                           const std::vector<float>& probabilities, std::int64_t top_k) {
  const at::Tensor wanted = at::tensor(columns, at::kLong).view({-1, top_k});
  LabelTargets targets;
  targets.columns = wanted.clamp_min(0);
  targets.probabilities = at::tensor(probabilities, at::kFloat).view({-1, top_k}) * wanted.ge(0);
  targets.probabilities /= targets.probabilities.sum(1, true).clamp_min(1e-9);
  targets.likeliest = wanted.select(1, 0).contiguous();
  return targets;
}

LabelLoss label_loss(const at::Tensor& logits, const LabelTargets& targets,
                     const LabelLossWeights& weights) {
  const at::Tensor wide = logits.to(at::kFloat);
  const at::Tensor scores = at::log_softmax(wide, -1);
  const auto count = static_cast<double>(std::max<std::int64_t>(1, targets.rows()));
  const at::Tensor& wanted = targets.probabilities;
  LabelLoss loss;
  loss.divergence = divergence(wanted, scores.gather(1, targets.columns)) / count;
  const at::Tensor choice = targets.likeliest.clamp_min(0).unsqueeze(1);
  const at::Tensor greedy = scores.gather(1, choice).squeeze(1) * targets.likeliest.ge(0);
  loss.total = -greedy.sum() / count * weights.greedy;
  const double hot = weights.temperature;
  loss.total = loss.total +
               (hot == 1 ? loss.divergence
                         : divergence(at_temperature(wanted, hot),
                                      at::log_softmax(wide / hot, -1).gather(1, targets.columns)) *
                               (hot * hot / count));
  if (weights.candidates > 0) {
    const double among = weights.candidate_temperature;
    // Candidates without a column have share 0. The student's share of them is 0 too.
    const at::Tensor student = at::log_softmax(
        (wide.gather(1, targets.columns) / among).masked_fill(wanted.le(0), -1e9), -1);
    loss.total = loss.total + divergence(at_temperature(wanted, among), student) *
                                  (among * among / count * weights.candidates);
  }
  loss.agreement = scores.argmax(-1).eq(targets.likeliest).to(at::kFloat).sum() / count;
  return loss;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/logprobs.h"

#include <algorithm>
#include <limits>

#include "common/base/portable_math.h"
#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/select.h"

namespace outrider {
namespace {

constexpr float kLeast = std::numeric_limits<float>::lowest();

// The logarithm of the sum of e^(logit - max), added in the order of the tokens.
double log_sum(std::span<const float> row, float max) {
  const std::size_t padded = (row.size() + kNoiseGroup - 1) / kNoiseGroup * kNoiseGroup;
  std::vector<float> weights(padded, -std::numeric_limits<float>::infinity());
  scale_logits(row, max, 1.0f, weights);
  exp_row(weights, weights);
  double sum = 0;
  for (const float weight : weights) sum += double{weight};
  return portable_log(sum);
}

}  // namespace

TokenLogprobs logprobs_of(std::span<const float> row, TokenId chosen, std::uint32_t top) {
  const float max = max_logit(row);
  const double rest = log_sum(row, max);
  const auto logprob = [&](float logit) {
    const double value = double{std::min(logit, std::numeric_limits<float>::max())} - max - rest;
    return value > double{kLeast} ? static_cast<float>(value) : kLeast;  // so is NaN
  };
  TokenLogprobs found{.chosen = logprob(row[static_cast<std::size_t>(chosen)])};
  std::vector<SelectKey> keys;
  select_best(row, top, keys);
  for (const SelectKey key : keys) found.top.push_back({token_of(key), logprob(value_of(key))});
  return found;
}

}  // namespace outrider

// A teacher's labels as targets for rows of logits, over all tokens or over a shortlist.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// For each token of the vocabulary its column in rows of logits over `tokens`; -1: it has none.
// Empty `tokens` means all. Errors: kInvalidArgument for a token beyond the vocabulary.
Result<std::vector<std::int32_t>> logit_columns(const std::vector<TokenId>& tokens,
                                                std::int32_t vocab_size);

struct LabelTargets {
  at::Tensor columns;        // [rows, top_k] int64: columns of the logits
  at::Tensor probabilities;  // [rows, top_k] f32; a row's sum is 1, or 0 if none of its tokens has
                             // a column
  at::Tensor likeliest;      // [rows] int64: the column of the teacher's choice; -1: it has none

  std::int64_t rows() const { return columns.size(0); }
};

// columns: [rows, top_k], from logit_columns(), likeliest first; probabilities: the teacher's.
LabelTargets label_targets(const std::vector<std::int64_t>& columns,
                           const std::vector<float>& probabilities, std::int64_t top_k);

struct LabelLoss {
  at::Tensor divergence;  // KL(teacher || student) over the teacher's top_k, mean over rows
  at::Tensor total;       // weighted sum of all losses
  at::Tensor agreement;   // share of the rows where both choose the same greedily
};
struct LabelLossWeights {  // relative to the divergence
  double greedy = 0;       // cross entropy with the likeliest token
  double candidates = 0;   // divergence within the teacher's top_k alone (LEVER, eq. 10)
  // Both sides of a divergence are taken at its temperature, and it counts times the square of
  // that: the divergence's (eq. 9) and that within the top_k.
  double temperature = 1;
  double candidate_temperature = 1;
};
// logits: [rows, tokens]. The loss's divergence is at temperature 1.
LabelLoss label_loss(const at::Tensor& logits, const LabelTargets& targets,
                     const LabelLossWeights& weights);

}  // namespace outrider

// What a teacher's labels ask of rows of logits, over all tokens or over a shortlist.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// Where each token of the vocabulary stands in rows of logits over `tokens`, -1: nowhere; of no
// tokens: of all. Errors: kInvalidArgument for a token beyond the vocabulary.
Result<std::vector<std::int32_t>> logit_columns(const std::vector<TokenId>& tokens,
                                                std::int32_t vocab_size);

struct LabelTargets {
  at::Tensor columns;        // [rows, top_k] int64: of the logits
  at::Tensor probabilities;  // [rows, top_k] f32, each row's sum 1, or 0 if it has none of them
  at::Tensor likeliest;      // [rows] int64: the column of the teacher's choice, -1: has none

  std::int64_t rows() const { return columns.size(0); }
};

// columns: [rows, top_k], of logit_columns(), likeliest first; probabilities: the teacher's.
LabelTargets label_targets(const std::vector<std::int64_t>& columns,
                           const std::vector<float>& probabilities, std::int64_t top_k);

struct LabelLoss {
  at::Tensor divergence;  // KL(teacher || student) over the teacher's top_k, mean over rows
  at::Tensor total;       // of all, weighted
  at::Tensor agreement;   // part of the rows where both choose the same greedily
};
struct LabelLossWeights {  // beside the divergence's
  double greedy = 0;       // cross entropy with the likeliest token
  double candidates = 0;   // divergence within the teacher's top_k alone (LEVER, eq. 10)
};
// logits: [rows, tokens].
LabelLoss label_loss(const at::Tensor& logits, const LabelTargets& targets,
                     const LabelLossWeights& weights);

}  // namespace outrider

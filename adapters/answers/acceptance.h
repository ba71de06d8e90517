// How much of a target's own text a draft guesses.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// Per document, for each learnt token in order, whether the model's greedy guess from the tokens
// before it is that token. Documents are cut at the model's context. Errors: those of the model.
Result<std::vector<std::vector<bool>>> greedy_hits(Model& model,
                                                   const std::vector<Document>& documents);

// The mean number of tokens per target pass at temperature 0 with chains of `gamma` drafted tokens,
// over texts that the target itself wrote greedily: a pass takes the drafted tokens up to the
// first miss, and one of its own.
double tokens_per_pass(const std::vector<std::vector<bool>>& hits, int gamma);

}  // namespace outrider

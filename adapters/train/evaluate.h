// What a trained model is worth: loss and exact answers on held-out text, and how much of a
// target's own text a draft guesses.
//
// Thread rule: one thread; libtorch uses its pool. Errors of libtorch are exceptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "adapters/data/corpus.h"
#include "adapters/train/llama.h"
#include "adapters/train/run_files.h"

namespace outrider {

// documents: learnt marks the tokens that count. Longer ones are cut at the model's context.
HeldOutResult evaluate(const Llama& model, const std::vector<Document>& documents);

// Per document, for each learnt token in order, whether the model's greedy guess from the tokens
// before it is that token.
std::vector<std::vector<bool>> greedy_hits(const Llama& model,
                                           const std::vector<Document>& documents);

// The mean number of tokens per target pass at temperature 0 with chains of `gamma` drafted tokens,
// over texts that the target itself wrote greedily: a pass takes the drafted tokens up to the
// first miss, and one of its own.
double tokens_per_pass(const std::vector<std::vector<bool>>& hits, int gamma);

}  // namespace outrider

// How many tokens of a target's own text a draft guesses. The draft is a model, or prompt look-up,
// the baseline that needs no model.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/model/model.h"

namespace outrider {

// Per document, for each learnt token in order: whether it is the model's greedy guess from the
// tokens before it. Documents are cut off at the model's context. Errors: those of the model.
Result<std::vector<std::vector<bool>>> greedy_hits(Model& model,
                                                   const std::vector<Document>& documents);

// The mean number of tokens per target pass at temperature 0 with chains of `gamma` drafted tokens,
// over texts that the target itself wrote greedily. A pass takes the drafted tokens up to the first
// miss, and adds one of its own.
double tokens_per_pass(const std::vector<std::vector<bool>>& hits, int gamma);

// Prompt look-up finds an earlier occurrence of the text's last tokens, in the prompt or in the
// answer so far, and guesses that the same tokens follow again. It searches for the last three
// tokens, then for the last two, then for the last one, and takes the latest occurrence. Returns at
// most `gamma` tokens.
std::vector<TokenId> look_up(std::span<const TokenId> text, int gamma);

// How many passes of a target write this answer if prompt look-up drafts for each of them. A pass
// takes the guesses up to the first wrong one, and adds one token of its own.
std::size_t passes_by_look_up(std::span<const TokenId> prompt, std::span<const TokenId> answer,
                              int gamma);

}  // namespace outrider

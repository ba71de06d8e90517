// How much of a target's own text a draft guesses: a model, and prompt look-up, which needs no
// model and which any real draft has to beat.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/base/types.h"
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

// Prompt look-up: what followed the last tokens where they stood before, in the prompt or in the
// answer so far, is guessed to follow again.
// At most `gamma` tokens: what follows the latest earlier place of the text's last three tokens or,
// where there is none, of its last two, or one.
std::vector<TokenId> look_up(std::span<const TokenId> text, int gamma);

// How many passes of a target write this answer if look-up drafts for each of them: a pass takes
// the guesses up to the first wrong one, and one token of its own.
std::size_t passes_by_look_up(std::span<const TokenId> prompt, std::span<const TokenId> answer,
                              int gamma);

}  // namespace outrider

// Prompt look-up: a draft without a model, which any real draft has to beat. What followed the last
// tokens where they stood before, in the prompt or in the answer so far, is guessed to follow
// again.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// At most `gamma` tokens: what follows the latest earlier place of the text's last three tokens or,
// where there is none, of its last two, or one.
std::vector<TokenId> look_up(std::span<const TokenId> text, int gamma);

// How many passes of a target write this answer if look-up drafts for each of them: a pass takes
// the guesses up to the first wrong one, and one token of its own.
std::size_t passes_by_look_up(std::span<const TokenId> prompt, std::span<const TokenId> answer,
                              int gamma);

}  // namespace outrider

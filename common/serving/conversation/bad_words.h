// The sequences of tokens that ChoiceSettings forbid for texts that an answer may not contain.
//
// A text has many tokenizations. As in vLLM, those are forbidden that the tokenizer gives at the
// beginning of a text and behind a space.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

// INVALID_ARGUMENT for a word without a token or with too many, and for too many words.
Result<std::vector<std::vector<TokenId>>> bad_word_tokens(const Tokenizer& tokenizer,
                                                          std::span<const std::string> words);

}  // namespace outrider

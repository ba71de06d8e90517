// Tokens of bytes that stand inside a text, behind others: what goes on with an answer, not what
// begins one.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

// The tokens as the tokenizer cuts the bytes, special ones never among them. None if it would
// change a byte, or if the bytes end within a character.
std::vector<TokenId> tokens_inside_text(const Tokenizer& tokenizer, std::string_view bytes);

}  // namespace outrider

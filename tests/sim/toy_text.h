// The spelling of a toy model's tokens: letters, a space, and parts of characters, so that an
// answer can stand in the middle of a character, and a stop string has several tokens.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/types.h"
#include "common/serving/conversation/answer_text.h"

namespace outrider {

// Stop strings of two or three tokens each, whose ids are below 4.
inline constexpr std::string_view kToyStops[] = {"ab", "ba", "bb", "a\u00e9", "\u00e9b"};

// The product's own streamed text, of a tokenizer of twelve tokens.
std::unique_ptr<AnswerText> make_toy_text(const std::vector<std::string>& stops);

// Whether a text of these tokens ends within a character or one of the stop strings.
bool ends_within(std::span<const TokenId> tokens, const std::vector<std::string>& stops);

}  // namespace outrider

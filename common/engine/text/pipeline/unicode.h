// The properties of the Unicode Character Database that tokenizers need. Wraps ICU.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/engine/text/pipeline/normalizer.h"

namespace outrider {

bool is_white_space(char32_t code);

// \w of UTS #18: Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control.
bool is_word_character(char32_t code);

// All arguments are UTF-8.
Result<std::string> to_unicode_form(std::string_view text, UnicodeForm form);
std::string to_lowercase(std::string_view text);

// Bytes of White_Space at the start or end of the text.
std::size_t leading_white_space(std::string_view text);
std::size_t trailing_white_space(std::string_view text);

// The first and last character; the text is not empty.
char32_t first_character(std::string_view text);
char32_t last_character(std::string_view text);

}  // namespace outrider

// UTF-8, one character at a time (The Unicode Standard, table 3-7 and U+FFFD substitution of
// maximal subparts, as WHATWG, Python and Rust substitute).
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State {
  kWellFormed,
  kIllFormed,  // no continuation can repair it
  kCutShort,   // the text ends inside a character that is well-formed so far
};

struct Utf8Character {
  char32_t code = 0;       // meaningful for kWellFormed only
  std::size_t length = 0;  // bytes; of the maximal subpart if not well-formed; at least 1
  Utf8State state = Utf8State::kIllFormed;
};

// The character at text[at]; requires at < text.size().
Utf8Character utf8_at(std::string_view text, std::size_t at);

// The length of the well-formed character that starts with `lead`, in valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

bool is_utf8(std::string_view text);
// INVALID_ARGUMENT, with the place of the first byte that fits no character. what: the text's name.
Status check_utf8(std::string_view text, const std::string& what);

// The text with every maximal ill-formed subpart replaced by U+FFFD.
std::string replace_ill_formed(std::string_view text);

// code is a Unicode scalar value.
void append_utf8(char32_t code, std::string& out);

}  // namespace outrider

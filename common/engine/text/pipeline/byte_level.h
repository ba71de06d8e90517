// GPT-2's alphabet: one printable character for each byte, so that a vocabulary of byte strings
// fits into JSON.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outrider {

char32_t byte_to_character(std::uint8_t byte);

// The bytes that `characters` (UTF-8) spell, or nothing if one of them is not in the alphabet.
std::optional<std::string> bytes_of_characters(std::string_view characters);

}  // namespace outrider

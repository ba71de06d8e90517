// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/byte_level.h"

#include <array>

#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

constexpr std::size_t kAlphabetEnd = 0x100 + 68;  // 68 bytes are not printable in Latin-1

constexpr bool is_printable(std::size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Printable bytes map to themselves, the others to U+0100 and up, in order.
struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kAlphabetEnd> byte{};

  constexpr Alphabet() {
    for (int& b : byte) b = -1;
    char32_t next = 0x100;
    for (std::size_t b = 0; b < 256; ++b) {
      character[b] = is_printable(b) ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = static_cast<int>(b);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

char32_t byte_to_character(std::uint8_t byte) {
  return kAlphabet.character[byte];
}

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  std::string bytes;
  bytes.reserve(characters.size());
  for (std::size_t at = 0; at < characters.size();) {
    const Utf8Character c = utf8_at(characters, at);
    if (c.state != Utf8State::kWellFormed || c.code >= kAlphabetEnd || kAlphabet.byte[c.code] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kAlphabet.byte[c.code]);
    at += c.length;
  }
  return bytes;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/utf8.h"

#include <cstdint>

namespace outrider {
namespace {

struct Lead {
  std::size_t length = 0;   // 0: not a lead byte
  std::uint8_t low = 0x80;  // the range of the second byte
  std::uint8_t high = 0xBF;
};

Lead classify(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

// Where the first ill-formed character begins; the size if there is none.
std::size_t ill_formed_at(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Character c = utf8_at(text, at);
    if (c.state != Utf8State::kWellFormed) break;
    at += c.length;
  }
  return at;
}

}  // namespace

Utf8Character utf8_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<std::uint8_t>(text[at]);
  if (first < 0x80) return {first, 1, Utf8State::kWellFormed};
  const Lead lead = classify(first);
  if (lead.length == 0) return {0, 1, Utf8State::kIllFormed};
  char32_t code = first & (0x7Fu >> lead.length);
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (at + i == text.size()) return {0, i, Utf8State::kCutShort};
    const auto byte = static_cast<std::uint8_t>(text[at + i]);
    const std::uint8_t low = i == 1 ? lead.low : 0x80;
    const std::uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {0, i, Utf8State::kIllFormed};
    code = code << 6 | (byte & 0x3Fu);
  }
  return {code, lead.length, Utf8State::kWellFormed};
}

bool is_utf8(std::string_view text) {
  return ill_formed_at(text) == text.size();
}

Status check_utf8(std::string_view text, const std::string& what) {
  const std::size_t at = ill_formed_at(text);
  if (at == text.size()) return {};
  return invalid_argument(what + ": byte " + std::to_string(at + 1) +
                          " is not UTF-8. Remedy: convert the text to UTF-8, as with iconv");
}

std::string replace_ill_formed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character c = utf8_at(text, at);
    out += c.state == Utf8State::kWellFormed ? text.substr(at, c.length) : kReplacementCharacter;
    at += c.length;
  }
  return out;
}

void append_utf8(char32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

}  // namespace outrider

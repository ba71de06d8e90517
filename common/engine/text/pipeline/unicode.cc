// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <limits>

#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

const icu::Normalizer2* instance_of(UnicodeForm form, UErrorCode& error) {
  switch (form) {
    case UnicodeForm::kNfc:
      return icu::Normalizer2::getNFCInstance(error);
    case UnicodeForm::kNfd:
      return icu::Normalizer2::getNFDInstance(error);
    case UnicodeForm::kNfkc:
      return icu::Normalizer2::getNFKCInstance(error);
    case UnicodeForm::kNfkd:
      return icu::Normalizer2::getNFKDInstance(error);
  }
  return nullptr;
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

}  // namespace

bool is_white_space(char32_t code) {
  return u_isUWhiteSpace(static_cast<UChar32>(code)) != 0;
}

bool is_word_character(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  if (u_isUAlphabetic(c) != 0 || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0) return true;
  return (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

Result<std::string> to_unicode_form(std::string_view text, UnicodeForm form) {
  if (is_ascii(text)) return std::string(text);  // no form changes ASCII
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = instance_of(form, error);
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  if (U_SUCCESS(error) && text.size() <= std::numeric_limits<std::int32_t>::max()) {
    const icu::StringPiece piece(text.data(), static_cast<std::int32_t>(text.size()));
    normalizer->normalizeUTF8(0, piece, sink, nullptr, error);
  }
  if (U_FAILURE(error)) {
    return internal_error(std::string("ICU cannot normalise: ") + u_errorName(error));
  }
  return out;
}

std::string to_lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character c = utf8_at(text, at);
    append_utf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c.code))), out);
    // The only character whose lower case is two characters (SpecialCasing.txt).
    if (c.code == 0x130) append_utf8(0x307, out);
    at += c.length;
  }
  return out;
}

std::size_t leading_white_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Character c = utf8_at(text, at);
    if (!is_white_space(c.code)) break;
    at += c.length;
  }
  return at;
}

std::size_t trailing_white_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const char32_t code = last_character(text.substr(0, end));
    if (!is_white_space(code)) break;
    std::string encoded;
    append_utf8(code, encoded);
    end -= encoded.size();
  }
  return text.size() - end;
}

char32_t first_character(std::string_view text) {
  return utf8_at(text, 0).code;
}

char32_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return utf8_at(text, at).code;
}

}  // namespace outrider

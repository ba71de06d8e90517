// The texts of the golden ids, and the hash of ids (tests/golden/make_text_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unicode/uchar.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/sha256.h"
#include "common/engine/text/pipeline/utf8.h"
#include "tests/unit/common/engine/text/family_tokenizers.h"

namespace outrider {

// Whether Unicode 14, which PCRE2 knows, has a character for that code.
inline bool is_assigned(UChar32 code) {
  UVersionInfo age;
  u_charAge(code, age);
  return age[0] <= 14 && (U_GET_GC_MASK(code) & (U_GC_CN_MASK | U_GC_CO_MASK | U_GC_CS_MASK)) == 0;
}

// Every assigned character but the line end between letters, digits and spaces, 16 to a line.
inline std::vector<std::string> code_point_lines() {
  std::vector<std::string> lines;
  int in_line = 16;
  for (UChar32 code = 0; code < 0x110000; ++code) {
    if (!is_assigned(code) || code == '\n') continue;
    if (in_line == 16) {
      lines.emplace_back();
      in_line = 0;
    }
    std::string c;
    append_utf8(static_cast<char32_t>(code), c);
    lines.back() += "a" + c + "b " + c + " 1" + c + c + "'" + c;
    ++in_line;
  }
  for (std::string& line : lines) line += '\n';
  return lines;
}

inline std::vector<std::string> lines_of(const std::string& name) {
  if (name == "code-points") return code_point_lines();
  const std::string own = kGoldenText + "/" + name;
  const std::string text =
      read_whole(std::filesystem::exists(own) ? own : kSharedData + "/prompts/" + name);
  std::vector<std::string> lines(1);
  for (const char c : text) {
    lines.back() += c;
    if (c == '\n') lines.emplace_back();
  }
  lines.back() += '\n';
  return lines;
}

inline void hash_ids(const std::vector<TokenId>& ids, Sha256& hash) {
  static_assert(std::endian::native == std::endian::little);
  const TokenId end = -1;
  hash.update({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)});
  hash.update({reinterpret_cast<const char*>(&end), sizeof(end)});
}

}  // namespace outrider

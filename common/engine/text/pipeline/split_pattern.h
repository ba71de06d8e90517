// The regular expressions of tokenizer files, with the meaning that Oniguruma (Ruby syntax) gives
// them, run by PCRE2.
//
// A pattern may be malicious, so a match may cost only a bounded amount of work: every attempt
// starts with a small limit, attempts that need more are charged to a budget linear in the text,
// and an exhausted budget is an error. The limit counts steps, not time: the outcome is the same on
// every machine.
//
// Thread rule: const use from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

struct pcre2_real_code_8;

namespace outrider {

// The longest accepted result of a tokenizer's step: steps may lengthen a text, one after another.
constexpr std::size_t max_step_bytes(std::size_t text_bytes) {
  const std::size_t bytes = 64 * text_bytes + (std::size_t{1} << 20);
  return bytes < std::size_t{1} << 30 ? bytes : std::size_t{1} << 30;
}

// Bytes [begin, end) of some text.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class SplitPattern final {
 public:
  // Errors: kUnimplemented for syntax whose meaning differs between the two engines, and kDataLoss
  // for a pattern that PCRE2 cannot compile.
  static Result<SplitPattern> compile(std::string_view pattern);

  // The pattern that matches `text` and nothing else.
  static Result<SplitPattern> literal(std::string_view text);

  // All matches in the parts `within` of a text, left to right, none of them empty; text is UTF-8
  // and so is each part. A match lies in one part and depends on that part only. Errors:
  // kResourceExhausted if the pattern needs more steps than the text's budget.
  Result<std::vector<Span>> find_all(std::string_view text, std::span<const Span> within) const;
  // All matches in the whole text.
  Result<std::vector<Span>> find_all(std::string_view text) const;

  // The compiled pattern, for the tokenizer's hash.
  const std::string& source() const { return source_; }

 private:
  SplitPattern() = default;

  std::string source_;
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/engine/text/pipeline/split_pattern.h"

#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxPatternBytes = 64 << 10;
constexpr std::uint32_t kFirstMatchLimit = 2'000;
constexpr std::uint32_t kLimitGrowth = 16;
constexpr std::uint32_t kLastMatchLimit = std::uint32_t{1} << 28;
constexpr std::size_t kStackBytes = 1 << 20;

std::string quoted(std::string_view pattern) {
  return "pattern '" + std::string(pattern) + "'";
}

// Rewrites or refuses syntax that the engines read differently. One pass over the pattern.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    for (; at_ < pattern_.size(); ++at_) {
      const char c = pattern_[at_];
      if (c == '\\') {
        OUTRIDER_RETURN_IF_ERROR(escape());
      } else if (in_class_) {
        OUTRIDER_RETURN_IF_ERROR(class_character(c));
      } else {
        OUTRIDER_RETURN_IF_ERROR(character(c));
      }
    }
    return std::move(out_);
  }

 private:
  Status refused(std::string_view what) const {
    return unimplemented(quoted(pattern_) + ": " + std::string(what) + " is not supported");
  }

  char next() const { return at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0'; }

  Status escape() {
    const char c = next();
    ++at_;
    // PCRE2's \s includes U+180E, Unicode's White_Space does not.
    if (c == 's') {
      out_ += "\\p{White_Space}";
    } else if (c == 'S') {
      out_ += "\\P{White_Space}";
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 &&
               std::string_view("pPdDrntfx").find(c) == std::string_view::npos) {
      return refused(std::string("\\") + c);
    } else {
      out_ += '\\';
      if (c != '\0') out_ += c;
      // The braces of \p{L} are no counted repeat.
      const bool is_named = (c == 'p' || c == 'P' || c == 'x') && next() == '{';
      const std::size_t close = pattern_.find('}', at_);
      if (is_named && close != std::string_view::npos) {
        out_ += pattern_.substr(at_ + 1, close - at_);
        at_ = close;
      }
    }
    return {};
  }

  Status class_character(char c) {
    if (c == '[') return refused("a class inside a class");
    if (c == '&' && next() == '&') return refused("&&");
    if (c == ']') in_class_ = false;
    out_ += c;
    return {};
  }

  Status character(char c) {
    out_ += c;
    if (c == '[') {
      in_class_ = true;
      if (next() == '^') out_ += pattern_[++at_];
      if (next() == ']') return refused("']' first in a class");
    }
    // Possessive for PCRE2, a repeated repeat for Oniguruma.
    if (c == '}' && next() == '+') return refused("'+' after a counted repeat");
    // Allows only groups that both engines have and that cannot call or jump.
    if (c == '(' && next() == '*') return refused("(*");
    if (c == '(' && next() == '?') {
      const char kind = at_ + 2 < pattern_.size() ? pattern_[at_ + 2] : '\0';
      if (std::string_view(":=!<>").find(kind) == std::string_view::npos &&
          !pattern_.substr(at_).starts_with("(?i:")) {
        return refused(std::string("(?") + kind);
      }
    }
    return {};
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

Result<std::shared_ptr<pcre2_code>> compile_code(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE where = 0;
  // Anchored: find_all() tries each position itself, so that each attempt has its own limit.
  // Multi-line: ^ and $ match at lines, as in Ruby.
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
      &where, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return data_loss(quoted(pattern) + ": " + reinterpret_cast<const char*>(message) + " at byte " +
                     std::to_string(where));
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    pcre2_code_free(code);
    return unimplemented(quoted(pattern) +
                         ": a pattern that matches the empty text is not supported");
  }
  // Without JIT (its pages may be forbidden) the interpreter gives the same matches.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return std::shared_ptr<pcre2_code>(code, pcre2_code_free);
}

// The scratch memory of one find_all() call, and its budget of steps, which all parts share.
class Matcher {
 public:
  Matcher(const pcre2_code* code, std::size_t text_bytes)
      : code_(code),
        data_(pcre2_match_data_create(1, nullptr), pcre2_match_data_free),
        context_(pcre2_match_context_create(nullptr), pcre2_match_context_free),
        stack_(nullptr, pcre2_jit_stack_free),
        budget_(64 * static_cast<std::uint64_t>(text_bytes) + 10'000'000) {}

  // The end of the match at position `at` of `part`, or `at` if there is none.
  Result<std::size_t> match(std::string_view part, std::size_t at) {
    std::uint32_t limit = kFirstMatchLimit;
    while (true) {
      pcre2_set_match_limit(context_.get(), limit);
      const int found = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(part.data()), part.size(),
                                    at, PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) return at;
      if (found >= 0) return pcre2_get_ovector_pointer(data_.get())[1];
      if (found == PCRE2_ERROR_JIT_STACKLIMIT && stack_ == nullptr) {
        stack_.reset(pcre2_jit_stack_create(32 << 10, kStackBytes, nullptr));
        pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
        continue;
      }
      const bool may_grow = found == PCRE2_ERROR_MATCHLIMIT && limit <= kLastMatchLimit &&
                            limit <= budget_ / kLimitGrowth;
      if (!may_grow) {
        return resource_exhausted("the split pattern needs too many steps at byte " +
                                  std::to_string(at) + " of a piece of text");
      }
      limit *= kLimitGrowth;
      budget_ -= limit;
    }
  }

 private:
  const pcre2_code* code_;
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data_;
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context_;
  std::unique_ptr<pcre2_jit_stack, decltype(&pcre2_jit_stack_free)> stack_;
  std::uint64_t budget_;
};

}  // namespace

Result<SplitPattern> SplitPattern::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return data_loss("a split pattern of " + std::to_string(pattern.size()) + " bytes, at most " +
                     std::to_string(kMaxPatternBytes) + " are read");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string translated, Translator(pattern).run());
  SplitPattern result;
  OUTRIDER_ASSIGN_OR_RETURN(result.code_, compile_code(translated));
  result.source_ = pattern;
  return result;
}

Result<SplitPattern> SplitPattern::literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) pattern += '\\';
    pattern += c;
  }
  return compile(pattern);
}

Result<std::vector<Span>> SplitPattern::find_all(std::string_view text,
                                                 std::span<const Span> within) const {
  std::vector<Span> found;
  Matcher matcher(code_.get(), text.size());
  for (const Span& span : within) {
    const std::string_view part = text.substr(span.begin, span.end - span.begin);
    for (std::size_t at = 0; at < part.size();) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::size_t end, matcher.match(part, at));
      if (end > at) {
        found.push_back({span.begin + at, span.begin + end});
        at = end;
      } else {
        at += utf8_length(part[at]);
      }
    }
  }
  return found;
}

Result<std::vector<Span>> SplitPattern::find_all(std::string_view text) const {
  const Span whole{0, text.size()};
  return find_all(text, std::span(&whole, 1));
}

}  // namespace outrider

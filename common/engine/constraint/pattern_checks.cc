// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/engine/constraint/form_checks.h"

namespace outrider {
namespace {

// Reads {m,n} behind the '{' at `at`, and moves there to its end. 0: it is no repeat.
std::size_t repeats_of(std::string_view text, std::size_t& at) {
  const std::size_t end = text.find('}', at);
  if (end == std::string_view::npos) return 0;
  const std::string_view inside = text.substr(at + 1, end - at - 1);
  if (inside.empty() || inside.find_first_not_of("0123456789,") != std::string_view::npos) return 0;
  std::size_t most = 1;
  for (std::size_t begin = 0; begin < inside.size();) {
    const std::size_t comma = std::min(inside.find(',', begin), inside.size());
    std::size_t number = 0;
    const auto read = std::from_chars(inside.data() + begin, inside.data() + comma, number);
    if (read.ec == std::errc::result_out_of_range) number = FormBounds::kMaxRepeats + 1;
    most = std::max(most, number);
    begin = comma + 1;
  }
  at = end;
  return most;
}

// How large the text is when groups are written out as often as they repeat. quotes: its literals
// stand between quotation marks, and # begins a comment.
Status check_expanded(std::string_view text, bool quotes, const char* what) {
  struct Group {
    std::size_t all = 0;   // of what came before
    std::size_t last = 0;  // of the part that a repeat would repeat
  };
  std::vector<Group> groups(1);
  const auto part = [&](std::size_t size) {
    groups.back().all += groups.back().last;
    groups.back().last = size;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
      part(1);
    } else if (quotes && c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '[' || (quotes && c == '"')) {
      const char closing = c == '[' ? ']' : '"';
      const std::size_t begin = i;
      for (++i; i < text.size() && text[i] != closing; ++i) i += text[i] == '\\' ? 1 : 0;
      part(c == '[' ? 1 : i - begin);
    } else if (c == '(') {
      groups.emplace_back();
      if (groups.size() > FormBounds::kMaxDepth) {
        return invalid_argument(std::string(what) + ": parentheses are nested deeper than " +
                                std::to_string(FormBounds::kMaxDepth));
      }
    } else if (c == ')' && groups.size() > 1) {
      const std::size_t inside = groups.back().all + groups.back().last;
      groups.pop_back();
      part(inside + 1);
    } else if (c == '{') {
      if (const std::size_t times = repeats_of(text, i); times > 0) {
        groups.back().last = std::max<std::size_t>(groups.back().last, 1) * times;
      } else {
        part(1);
      }
    } else {
      part(1);
    }
    const std::size_t size = groups.back().all + groups.back().last;
    if (size > FormBounds::kMaxRepeats) {
      return invalid_argument(
          std::string(what) + ": its repeats make more than " +
          std::to_string(FormBounds::kMaxRepeats) +
          " parts when they are written out. Remedy: fewer repeats, or + and *");
    }
  }
  return {};
}

}  // namespace

Status check_regex(std::string_view pattern) {
  if (pattern.empty()) {
    return invalid_argument(
        "regex: it is empty. Remedy: an expression that the whole answer matches");
  }
  if (pattern.size() > FormBounds::kMaxPattern) {
    return invalid_argument("regex: it has " + std::to_string(pattern.size()) +
                            " bytes. Remedy: at most " + std::to_string(FormBounds::kMaxPattern));
  }
  return check_expanded(pattern, false, "regex");
}

Status check_grammar(std::string_view rules) {
  if (rules.find("root") == std::string_view::npos) {
    return invalid_argument("grammar: it has no rule root. Remedy: root ::= .., in GBNF");
  }
  return check_expanded(rules, true, "grammar");
}

}  // namespace outrider

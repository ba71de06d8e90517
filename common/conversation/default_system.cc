// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/default_system.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace outrider {
namespace {

// A text of a template, and the code before it: from the text before, or the start of the tag.
struct JinjaText {
  std::string text;
  std::string_view code;
};

// Cuts a template into what stands outside of its tags and the literals within them.
class JinjaTexts {
 public:
  explicit JinjaTexts(std::string_view source) : rest_(source) {}

  std::vector<JinjaText> read() {
    while (!rest_.empty()) {
      const std::size_t tag = std::min({rest_.find("{{"), rest_.find("{%"), rest_.find("{#")});
      const std::string_view outside = take(tag);
      if (!outside.empty()) texts_.push_back({std::string(outside), {}});
      if (rest_.starts_with("{#")) {
        take(rest_.find("#}"));
      } else {
        read_tag();
      }
      take(2);
    }
    return std::move(texts_);
  }

 private:
  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  // Up to the tag's end.
  void read_tag() {
    while (!rest_.empty()) {
      const std::size_t quote = rest_.find_first_of("'\"");
      const std::size_t end = std::min(rest_.find("}}"), rest_.find("%}"));
      const std::string_view code = take(std::min(quote, end));
      if (quote >= end) return;
      texts_.push_back({read_literal(), code});
    }
  }

  std::string read_literal() {
    const char quote = take(1).front();
    std::string text;
    while (!rest_.empty()) {
      char c = take(1).front();
      if (c == quote) break;
      if (c == '\\' && !rest_.empty()) {
        c = take(1).front();
        if (c == 'n') c = '\n';
      }
      text += c;
    }
    return text;
  }

  std::string_view rest_;
  std::vector<JinjaText> texts_;
};

// Whether the code is "set NAME =" with "system" in the name.
bool sets_system(std::string_view code) {
  const std::size_t set = code.rfind("set ");
  if (set == std::string_view::npos) return false;
  code.remove_prefix(set + 4);
  const std::size_t equals = code.find_last_not_of(' ');
  if (equals == std::string_view::npos || code[equals] != '=') return false;
  const std::string_view name = code.substr(0, equals);
  const bool is_name = std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ' ';
  });
  return is_name && name.find("system") != std::string_view::npos;
}

// Between the markers of the system's turn; empty if they are not both there.
std::string_view between_markers(std::string_view text) {
  constexpr std::string_view kOpen = "<|im_start|>system\n";
  const std::size_t open = text.find(kOpen);
  if (open == std::string_view::npos) return {};
  const std::string_view rest = text.substr(open + kOpen.size());
  const std::size_t close = rest.find("<|im_end|>");
  return close == std::string_view::npos ? std::string_view() : rest.substr(0, close);
}

}  // namespace

std::string default_system_message(std::string_view source) {
  const std::vector<JinjaText> texts = JinjaTexts(source).read();
  for (const JinjaText& text : texts) {
    if (const std::string_view said = between_markers(text.text); !said.empty()) {
      return std::string(said);
    }
  }
  for (const JinjaText& text : texts) {
    if (sets_system(text.code) && !text.text.empty()) return text.text;
  }
  return {};
}

}  // namespace outrider

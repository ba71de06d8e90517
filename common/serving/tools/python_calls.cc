// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/serving/tools/call_readers.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Reads calls as Python writes them: names, and literals of texts, numbers, lists and dictionaries.
class PythonReader final {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  // [f(a=1), g()], or f(a=1) alone. Nothing: it is no such text, or not a whole one.
  std::optional<std::vector<std::pair<std::string, OrderedJson>>> calls() {
    std::vector<std::pair<std::string, OrderedJson>> all;
    const bool in_list = accept('[');
    do {
      if (in_list && accept(']')) return all;
      std::string name = identifier();
      OrderedJson arguments = OrderedJson::object();
      if (name.empty() || !accept('(') || !read_arguments(arguments)) return std::nullopt;
      all.emplace_back(std::move(name), std::move(arguments));
    } while (in_list && accept(','));
    if (in_list && !accept(']')) return std::nullopt;
    return all;
  }
  std::size_t position() const { return at_; }

 private:
  static constexpr int kMaxDepth = 32;

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // With dots: move.to
  std::string identifier() {
    skip_space();
    const std::size_t begin = at_;
    const auto is_part = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
    };
    while (at_ < text_.size() && is_part(static_cast<unsigned char>(text_[at_]))) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  // Behind "(".
  bool read_arguments(OrderedJson& out) {
    while (!accept(')')) {
      const std::string name = identifier();
      OrderedJson value;
      if (name.empty() || !accept('=') || !read_value(value, 0)) return false;
      out[name] = std::move(value);
      if (!accept(',')) return accept(')');
    }
    return true;
  }
  bool read_value(OrderedJson& out, int depth) {
    skip_space();
    if (at_ >= text_.size() || depth > kMaxDepth) return false;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return read_text(out);
    if (accept('[')) return read_list(out, ']', depth);
    if (accept('(')) return read_list(out, ')', depth);
    if (accept('{')) return read_dictionary(out, depth);
    return read_word(out);
  }
  bool read_list(OrderedJson& out, char end, int depth) {
    out = OrderedJson::array();
    while (!accept(end)) {
      if (!read_value(out.emplace_back(), depth + 1)) return false;
      if (!accept(',')) return accept(end);
    }
    return true;
  }
  bool read_dictionary(OrderedJson& out, int depth) {
    out = OrderedJson::object();
    while (!accept('}')) {
      OrderedJson key, value;
      if (!read_value(key, depth + 1) || !accept(':') || !read_value(value, depth + 1)) {
        return false;
      }
      out[key.is_string() ? key.get<std::string>() : key.dump()] = std::move(value);
      if (!accept(',')) return accept('}');
    }
    return true;
  }
  // A number, or a word of Python's or of JSON's.
  bool read_word(OrderedJson& out) {
    const std::size_t begin = at_;
    const auto is_part = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '+';
    };
    while (at_ < text_.size() && is_part(static_cast<unsigned char>(text_[at_]))) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word == "True" || word == "true") {
      out = true;
    } else if (word == "False" || word == "false") {
      out = false;
    } else if (word == "None" || word == "null") {
      out = nullptr;
    } else {
      out = OrderedJson::parse(word, nullptr, false);
    }
    return !out.is_discarded();
  }
  bool read_text(OrderedJson& out) {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        constexpr std::string_view kNames = "ntr", kMeant = "\n\t\r";
        if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
          c = kMeant[known];
        } else if (c != '\\' && c != '\'' && c != '"') {
          value += '\\';
        }
      }
      value += c;
    }
    out = std::move(value);
    return accept(quote);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// The end of the list or call that the text begins with, beyond its last bracket; npos: it is not
// whole yet.
std::size_t end_of_brackets(std::string_view text) {
  int depth = 0;
  char quote = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == '\\') ++at;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == ')' || c == '}') && --depth <= 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

CallReading PythonCalls::read(std::string& text, CallDeltas& calls) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string::npos) return CallReading::kNeedsMore;
  const std::string_view rest = std::string_view(text).substr(first);
  if (is_unmarked_) {
    if (rest.front() != '[') return CallReading::kNoCall;
    const std::size_t name = rest.find_first_not_of("[ \n");
    const std::size_t name_end = rest.find_first_of("(),=\"'{} ", name);
    const bool is_whole = name_end != std::string_view::npos;
    const std::string_view written =
        name == std::string_view::npos ? "" : rest.substr(name, name_end - name);
    const bool may_be = std::ranges::any_of(*tools_, [&](const Tool& tool) {
      return is_whole ? tool.name == written : tool.name.starts_with(written);
    });
    if (!may_be) return CallReading::kNoCall;
  }
  const std::size_t end = end_of_brackets(rest);
  if (end == std::string_view::npos) return CallReading::kNeedsMore;
  PythonReader reader(rest.substr(0, end));
  const auto found = reader.calls();
  if (!found || found->empty()) return CallReading::kNoCall;
  for (const auto& [name, arguments] : *found) {
    calls.begin(name);
    calls.add(arguments.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
    calls.end();
  }
  text.erase(0, first + end);
  return CallReading::kDone;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/serving/conversation/jinja/value.h"

namespace outrider::jinja {
namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_name_byte(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         byte == '_' || static_cast<unsigned char>(byte) >= 0x80;
}

// Lines end with \n, and one at the end of the text is dropped, as in jinja2.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

void append_code(std::uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

class Lexer final {
 public:
  Lexer(std::string_view source, Steps& steps) : source_(normalized(source)), steps_(steps) {}

  std::vector<Token> run() {
    steps_.look_closely(source_.size());
    while (at_ < source_.size()) data();
    add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  struct Tag {
    std::size_t at;
    char opens;  // '%', '{' or '#'
    char sign;   // '-', '+' or 0
  };

  [[noreturn]] void refuse(std::string_view problem) const {
    fail(fmt::format("line {}: {}", line_, problem));
  }

  bool starts_with(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }

  void add(TokenKind kind, std::string text = {}) {
    tokens_.push_back({kind, std::move(text), 0, 0, line_});
    steps_.take(1);
  }

  void advance(std::size_t bytes) {
    steps_.look(bytes);
    line_ +=
        static_cast<int>(std::ranges::count(std::string_view(source_).substr(at_, bytes), '\n'));
    at_ += bytes;
  }

  void skip_spaces() {
    while (at_ < source_.size()) {
      const std::size_t space = space_at(source_, at_);
      if (space == 0) break;
      advance(space);
    }
  }

  std::optional<Tag> next_tag(std::size_t from) const {
    for (std::size_t i = source_.find('{', from); i != std::string::npos;
         i = source_.find('{', i + 1)) {
      if (i + 1 == source_.size()) break;
      const char opens = source_[i + 1];
      if (opens != '%' && opens != '{' && opens != '#') continue;
      const char sign = i + 2 < source_.size() ? source_[i + 2] : '\0';
      return Tag{i, opens, sign == '-' || sign == '+' ? sign : '\0'};
    }
    return std::nullopt;
  }

  // The text before a tag, without the white space that the tag removes.
  std::string stripped(std::string_view text, char opens, char sign) const {
    if (sign == '-') {
      std::size_t end = 0;  // after the last character that is no white space
      for (std::size_t i = 0; i < text.size();) {
        const std::size_t space = space_at(text, i);
        if (space == 0) end = next_character(text, i);
        i = space == 0 ? end : i + space;
      }
      return std::string(text.substr(0, end));
    }
    if (sign == '+' || opens == '{') return std::string(text);
    const std::size_t line = text.rfind('\n') + 1;  // 0 if there is none
    if (line == 0 && !line_starting_) return std::string(text);
    for (std::size_t i = line; i < text.size();) {
      const std::size_t space = space_at(text, i);
      if (space == 0) return std::string(text);
      i += space;
    }
    return std::string(text.substr(0, line));
  }

  // Called after the end of a tag or a comment.
  void after_block(char sign) {
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
    const std::size_t before = at_;
    if (sign == '-') skip_spaces();
    if (sign == '\0' && starts_with("\n")) advance(1);
    if (at_ != before) line_starting_ = source_[at_ - 1] == '\n';
  }

  void data() {
    const std::optional<Tag> tag = next_tag(at_);
    const std::size_t end = tag ? tag->at : source_.size();
    const std::string_view text = std::string_view(source_).substr(at_, end - at_);
    std::string printed = tag ? stripped(text, tag->opens, tag->sign) : std::string(text);
    if (!printed.empty()) add(TokenKind::kData, std::move(printed));
    advance(text.size());
    if (!tag) return;
    advance(tag->sign == '\0' ? 2 : 3);
    if (tag->opens == '#') {
      comment();
    } else if (tag->opens == '{') {
      inside(TokenKind::kVariableBegin, TokenKind::kVariableEnd, "}}");
    } else if (!raw()) {
      inside(TokenKind::kBlockBegin, TokenKind::kBlockEnd, "%}");
    }
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) refuse("a comment does not end. Remedy: #}");
    const char sign =
        end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+') ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_block(sign);
  }

  // {% raw %}: everything up to {% endraw %} is text.
  bool raw() {
    const std::size_t begin = at_;
    const int line = line_;
    skip_spaces();
    if (!starts_with("raw")) return rewind(begin, line);
    advance(3);
    skip_spaces();
    const bool strips = starts_with("-%}");
    if (!strips && !starts_with("%}")) return rewind(begin, line);
    advance(strips ? 3 : 2);
    if (strips) skip_spaces();
    line_starting_ = source_[at_ - 1] == '\n';
    const std::size_t from = at_;
    for (std::optional<Tag> tag = next_tag(at_); tag; tag = next_tag(at_)) {
      advance(tag->at - at_);
      const std::size_t tag_at = at_;
      advance(1);
      if (tag->opens != '%') continue;
      advance(tag->sign == '\0' ? 1 : 2);
      skip_spaces();
      if (!starts_with("endraw")) continue;
      advance(6);
      skip_spaces();
      const char sign = starts_with("-") ? '-' : starts_with("+") ? '+' : '\0';
      if (sign != '\0') advance(1);
      if (!starts_with("%}")) continue;
      std::string text =
          stripped(std::string_view(source_).substr(from, tag_at - from), '%', tag->sign);
      if (!text.empty()) add(TokenKind::kData, std::move(text));
      advance(2);
      after_block(sign);
      return true;
    }
    refuse("a raw block does not end. Remedy: {% endraw %}");
  }

  bool rewind(std::size_t at, int line) {
    at_ = at;
    line_ = line;
    return false;
  }

  void inside(TokenKind begin, TokenKind end, std::string_view closes) {
    add(begin);
    std::string brackets;
    while (true) {
      skip_spaces();
      if (at_ >= source_.size()) refuse(fmt::format("a tag does not end. Remedy: {}", closes));
      if (brackets.empty()) {
        const char sign = starts_with("-") || (starts_with("+") && end == TokenKind::kBlockEnd)
                              ? source_[at_]
                              : '\0';
        if (std::string_view(source_).substr(at_ + (sign != '\0' ? 1 : 0)).starts_with(closes)) {
          advance(sign != '\0' ? 3 : 2);
          add(end);
          if (end == TokenKind::kBlockEnd || sign == '-') {
            after_block(end == TokenKind::kBlockEnd ? sign : '-');
          } else {
            line_starting_ = false;
          }
          return;
        }
      }
      token(brackets);
    }
  }

  void token(std::string& brackets) {
    const char byte = source_[at_];
    if (is_digit(byte)) {
      number();
    } else if (is_name_byte(byte)) {
      std::size_t end = at_;
      while (end < source_.size() && is_name_byte(source_[end])) ++end;
      add(TokenKind::kName, source_.substr(at_, end - at_));
      advance(end - at_);
    } else if (byte == '\'' || byte == '"') {
      string(byte);
    } else {
      const auto* found = std::ranges::find_if(
          kOperators, [&](std::string_view each) { return starts_with(each); });
      if (found == std::end(kOperators))
        refuse(fmt::format("unexpected character {}", printable(source_.substr(at_, 1))));
      balance(*found, brackets);
      add(TokenKind::kOperator, std::string(*found));
      advance(found->size());
    }
  }

  void balance(std::string_view found, std::string& brackets) const {
    if (found == "(") brackets += ')';
    if (found == "[") brackets += ']';
    if (found == "{") brackets += '}';
    if (found != ")" && found != "]" && found != "}") return;
    if (brackets.empty() || brackets.back() != found[0])
      refuse(fmt::format("unexpected '{}'", found));
    brackets.pop_back();
  }

  void number() {
    std::size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    bool is_real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      is_real = true;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
        ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        is_real = true;
        end = exponent;
        digits();
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    Token token{is_real ? TokenKind::kReal : TokenKind::kInteger, {}, 0, 0, line_};
    const char* last = text.data() + text.size();
    const auto read = is_real ? std::from_chars(text.data(), last, token.real)
                              : std::from_chars(text.data(), last, token.integer);
    if (read.ec != std::errc() || read.ptr != last)
      refuse(fmt::format("the number {} is out of range", printable(text)));
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
    steps_.take(1);
    advance(end - at_);
  }

  void string(char quote) {
    const int line = line_;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) refuse("a string does not end");
    std::string content = unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    advance(end + 1 - at_);
    tokens_.push_back({TokenKind::kString, std::move(content), 0, 0, line});
    steps_.take(1);
  }

  std::string unescaped(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char escape = text[++i];
      static constexpr std::string_view kNames = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
      if (const auto at = kNames.find(escape); at != std::string_view::npos) {
        out += kMeanings[at];
      } else if (escape == 'x' || escape == 'u' || escape == 'U') {
        const std::size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : 8;
        i += append_number(text.substr(i + 1), digits, 16, out);
      } else if (escape >= '0' && escape <= '7') {
        std::size_t digits = 1;
        while (digits < 3 && i + digits < text.size() && text[i + digits] >= '0' &&
               text[i + digits] <= '7')
          ++digits;
        i += append_number(text.substr(i), digits, 8, out) - 1;
      } else if (escape == 'N') {
        refuse("a character by name, \\N{..}, is not supported. Remedy: use \\u and its number");
      } else if (escape != '\n') {  // a continued line
        out += '\\';
        out += escape;
      }
    }
    return out;
  }

  std::size_t append_number(std::string_view text, std::size_t digits, int base,
                            std::string& out) const {
    std::uint32_t code = 0;
    const std::string_view number = text.substr(0, digits);
    const auto read = std::from_chars(number.data(), number.data() + number.size(), code, base);
    if (number.size() != digits || read.ptr != number.data() + digits || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000)) {
      refuse("a string has an escape that is not a character");
    }
    append_code(code, out);
    return digits;
  }

  const std::string source_;
  Steps& steps_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last text read ended a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, Steps& steps) {
  return Lexer(source, steps).run();
}

}  // namespace outrider::jinja

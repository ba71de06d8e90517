// Parses the expressions of a chat template; parser.cc adds the statements.
//
// The rules follow jinja2's grammar, lowest binding first: tuple, if, or, and, not, comparison,
// sum, concatenation, product, power, sign, postfix, filter and test.
//
// Thread rule: one thread. Errors: a Failure names the line. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/serving/conversation/jinja/lexer.h"
#include "common/serving/conversation/jinja/syntax.h"

namespace outrider::jinja {

inline constexpr int kMaxParserDepth = 200;  // of expressions and blocks within each other

using Words = std::initializer_list<std::string_view>;

class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, const KnownNames& known, Arena& arena)
      : tokens_(tokenize(source, arena.steps())), known_(known), arena_(arena) {}

 protected:
  // Counts how deep the parser is.
  class Deeper final {
   public:
    explicit Deeper(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxParserDepth)
        parser_.refuse("too many blocks or brackets within each other");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    ExpressionParser& parser_;
  };

  // Sets a flag while a part of the tree is parsed.
  class With final {
   public:
    With(bool& flag, bool value) : flag_(flag), before_(std::exchange(flag, value)) {}
    ~With() { flag_ = before_; }
    With(const With&) = delete;
    With& operator=(const With&) = delete;

   private:
    bool& flag_;
    bool before_;
  };

  [[noreturn]] void refuse(std::string_view problem) const {
    fail(fmt::format("line {}: {}, at {}", now().line, problem,
                     now().kind == TokenKind::kEnd ? "the end" : printable(now().text)));
  }

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at_operator(std::string_view text) const { return now().is(TokenKind::kOperator, text); }
  bool at_word(std::string_view text) const { return now().is(TokenKind::kName, text); }
  bool at_any_word(Words words) const {
    return std::ranges::any_of(words, [&](std::string_view word) { return at_word(word); });
  }
  bool skip_operator(std::string_view text) {
    const bool found = at_operator(text);
    if (found) take();
    return found;
  }
  bool skip_word(std::string_view text) {
    const bool found = at_word(text);
    if (found) take();
    return found;
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) refuse(fmt::format("'{}' is missing", text));
  }
  void expect(TokenKind kind, std::string_view what) {
    if (now().kind != kind) refuse(fmt::format("{} is missing", what));
    take();
  }
  std::string expect_name() {
    if (now().kind != TokenKind::kName) refuse("a name is missing");
    return take().text;
  }

  ExpressionPtr make(Operation operation) {
    arena_.steps().look(sizeof(Expression));
    ExpressionPtr made = &syntax_.expressions.emplace_back();
    made->operation = operation;
    made->line = now().line;
    return made;
  }
  ExpressionPtr constant(Value value) {
    ExpressionPtr made = make(Operation::kConstant);
    made->constant = value;
    return made;
  }
  template <typename... Parts>
  ExpressionPtr join(Operation operation, int line, Parts... parts) {
    ExpressionPtr made = make(operation);
    made->line = line;
    (made->parts.push_back(parts), ...);
    return made;
  }

  // An expression, or several with commas between.
  ExpressionPtr tuple(bool with_condition, std::string_view end = {}, bool in_brackets = false) {
    std::vector<ExpressionPtr> parts;
    bool is_tuple = false;
    const int line = now().line;
    while (true) {
      if (!parts.empty()) expect_operator(",");
      if (now().kind == TokenKind::kVariableEnd || now().kind == TokenKind::kBlockEnd ||
          at_operator(")") || (!end.empty() && at_word(end))) {
        break;
      }
      parts.push_back(with_condition ? expression() : either());
      if (!at_operator(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && !parts.empty()) return parts.front();
    if (parts.empty() && !in_brackets) refuse("an expression is missing");
    ExpressionPtr made = make(Operation::kTuple);
    made->line = line;
    made->parts = std::move(parts);
    return made;
  }

  ExpressionPtr expression() {
    const Deeper deeper(*this);
    const int line = now().line;
    ExpressionPtr value = either();
    while (skip_word("if")) {
      // jinja2 looks filters up later where a condition may skip them. The value before the
      // condition was parsed strictly, which can only refuse more.
      const With soft(is_soft_, true);
      ExpressionPtr condition = either();
      ExpressionPtr otherwise = skip_word("else") ? expression() : nullptr;
      value = join(Operation::kIf, line, condition, value, otherwise);
    }
    return value;
  }

  ExpressionPtr either() {
    ExpressionPtr left = both();
    while (at_word("or")) {
      const int line = take().line;
      left = join(Operation::kOr, line, left, both());
    }
    return left;
  }

  ExpressionPtr both() {
    ExpressionPtr left = negation();
    while (at_word("and")) {
      const int line = take().line;
      left = join(Operation::kAnd, line, left, negation());
    }
    return left;
  }

  ExpressionPtr negation() {
    const Deeper deeper(*this);
    if (!at_word("not")) return comparison();
    const int line = take().line;
    return join(Operation::kNot, line, negation());
  }

  std::optional<Comparison> comparison_sign() {
    static constexpr std::pair<std::string_view, Comparison> kSigns[] = {
        {"==", Comparison::kEqual},  {"!=", Comparison::kUnequal},
        {"<", Comparison::kLess},    {"<=", Comparison::kLessOrEqual},
        {">", Comparison::kGreater}, {">=", Comparison::kGreaterOrEqual}};
    for (const auto& [text, sign] : kSigns) {
      if (skip_operator(text)) return sign;
    }
    if (skip_word("in")) return Comparison::kIn;
    if (at_word("not") && ahead().is(TokenKind::kName, "in")) {
      take();
      take();
      return Comparison::kNotIn;
    }
    return std::nullopt;
  }

  ExpressionPtr comparison() {
    const int line = now().line;
    ExpressionPtr first = sum();
    std::optional<Comparison> sign = comparison_sign();
    if (!sign) return first;
    ExpressionPtr made = join(Operation::kCompare, line, first);
    for (; sign; sign = comparison_sign()) {
      made->comparisons.push_back(*sign);
      made->parts.push_back(sum());
    }
    return made;
  }

  ExpressionPtr sum() {
    ExpressionPtr left = concatenation();
    while (at_operator("+") || at_operator("-")) {
      const Token sign = take();
      left = join(sign.text == "+" ? Operation::kAdd : Operation::kSubtract, sign.line, left,
                  concatenation());
    }
    return left;
  }

  ExpressionPtr concatenation() {
    const int line = now().line;
    ExpressionPtr first = product();
    if (!at_operator("~")) return first;
    ExpressionPtr made = join(Operation::kConcat, line, first);
    while (skip_operator("~")) made->parts.push_back(product());
    return made;
  }

  ExpressionPtr product() {
    static constexpr std::pair<std::string_view, Operation> kSigns[] = {
        {"*", Operation::kMultiply},
        {"/", Operation::kDivide},
        {"//", Operation::kFloorDivide},
        {"%", Operation::kModulo}};
    ExpressionPtr left = power();
    while (now().kind == TokenKind::kOperator) {
      const auto* sign = std::ranges::find(kSigns, std::string_view(now().text),
                                           &std::pair<std::string_view, Operation>::first);
      if (sign == std::end(kSigns)) break;
      const int line = take().line;
      left = join(sign->second, line, left, power());
    }
    return left;
  }

  ExpressionPtr power() {
    ExpressionPtr left = unary(true);
    while (at_operator("**")) {
      const int line = take().line;
      left = join(Operation::kPower, line, left, unary(true));
    }
    return left;
  }

  ExpressionPtr unary(bool with_filter) {
    const Deeper deeper(*this);
    ExpressionPtr value;
    if (at_operator("-") || at_operator("+")) {
      const Token sign = take();
      value = join(sign.text == "-" ? Operation::kNegative : Operation::kPositive, sign.line,
                   unary(false));
    } else {
      value = primary();
    }
    value = postfix(value);
    while (with_filter) {
      if (at_operator("|")) {
        value = filter(value);
      } else if (at_word("is")) {
        value = test(value);
      } else if (at_operator("(")) {
        value = call(value);
      } else {
        break;
      }
    }
    return value;
  }

  ExpressionPtr primary() {
    const Deeper deeper(*this);
    switch (now().kind) {
      case TokenKind::kName:
        return name();
      case TokenKind::kString: {
        std::string text;
        while (now().kind == TokenKind::kString) text += take().text;
        return constant(arena_.text(std::move(text), Origin::kTemplate));
      }
      case TokenKind::kInteger:
        return constant({take().integer});
      case TokenKind::kReal:
        return constant({take().real});
      default:
        break;
    }
    if (skip_operator("(")) {
      ExpressionPtr made = tuple(true, {}, true);
      expect_operator(")");
      return made;
    }
    if (at_operator("[")) return list();
    if (at_operator("{")) return dictionary();
    refuse("an expression is missing");
  }

  ExpressionPtr name() {
    if (at_any_word({"true", "True", "false", "False"})) {
      const Token token = take();
      return constant({token.text == "true" || token.text == "True"});
    }
    if (at_any_word({"none", "None"})) {
      take();
      return constant({None{}});
    }
    ExpressionPtr made = make(Operation::kVariable);
    made->name = take().text;
    return made;
  }

  ExpressionPtr list() {
    ExpressionPtr made = make(Operation::kList);
    take();
    while (!at_operator("]")) {
      if (!made->parts.empty()) expect_operator(",");
      if (at_operator("]")) break;
      made->parts.push_back(expression());
    }
    take();
    return made;
  }

  ExpressionPtr dictionary() {
    ExpressionPtr made = make(Operation::kDict);
    take();
    while (!at_operator("}")) {
      if (!made->parts.empty()) expect_operator(",");
      if (at_operator("}")) break;
      made->parts.push_back(expression());
      expect_operator(":");
      made->parts.push_back(expression());
    }
    take();
    return made;
  }

  ExpressionPtr postfix(ExpressionPtr value) {
    while (true) {
      if (at_operator(".")) {
        const int line = take().line;
        if (now().kind == TokenKind::kInteger) {
          ExpressionPtr index = constant({now().integer});
          take();
          value = join(Operation::kItem, line, value, index);
          continue;
        }
        value = join(Operation::kAttribute, line, value);
        value->name = expect_name();
      } else if (at_operator("[")) {
        value = subscript(value);
      } else if (at_operator("(")) {
        value = call(value);
      } else {
        return value;
      }
    }
  }

  ExpressionPtr subscript(ExpressionPtr value) {
    const int line = take().line;
    if (at_operator("]")) refuse("an index is missing");
    ExpressionPtr first = at_operator(":") ? nullptr : expression();
    if (skip_operator("]")) return join(Operation::kItem, line, value, first);
    std::array<ExpressionPtr, 2> more{};  // the end and the step
    for (ExpressionPtr& part : more) {
      if (skip_operator(":") && !at_operator(":") && !at_operator("]")) part = expression();
    }
    expect_operator("]");
    return join(Operation::kSlice, line, value, first, more[0], more[1]);
  }

  ExpressionPtr call(ExpressionPtr function) {
    ExpressionPtr made = join(Operation::kCall, now().line, function);
    arguments(*made);
    return made;
  }

  void arguments(Expression& made) {
    expect_operator("(");
    for (bool is_first = true; !at_operator(")"); is_first = false) {
      if (!is_first) expect_operator(",");
      if (at_operator(")")) break;
      if (skip_operator("**")) {
        if (made.more_named != nullptr) refuse("a second '**'");
        made.more_named = expression();
      } else if (skip_operator("*")) {
        if (made.more_arguments != nullptr || made.more_named != nullptr)
          refuse("a '*' behind another");
        made.more_arguments = expression();
      } else if (now().kind == TokenKind::kName && ahead().is(TokenKind::kOperator, "=")) {
        std::string name = take().text;
        take();
        made.named.emplace_back(std::move(name), expression());
      } else {
        if (!made.named.empty() || made.more_arguments != nullptr || made.more_named != nullptr) {
          refuse("an argument without a name after one with a name");
        }
        made.arguments.push_back(expression());
      }
    }
    take();
  }

  std::string dotted_name() {
    std::string name = expect_name();
    while (skip_operator(".")) name += "." + expect_name();
    return name;
  }

  ExpressionPtr filter(ExpressionPtr value) {
    take();
    return filter_call(value);
  }

  ExpressionPtr filter_call(ExpressionPtr value) {
    ExpressionPtr made = join(Operation::kFilter, now().line, value);
    made->name = dotted_name();
    if (!is_soft_ && !known_.is_filter(made->name))
      refuse(fmt::format("there is no filter named '{}'", made->name));
    if (at_operator("(")) arguments(*made);
    return made;
  }

  ExpressionPtr test(ExpressionPtr value) {
    const int line = take().line;
    const bool is_negated = skip_word("not");
    ExpressionPtr made = join(Operation::kTest, line, value);
    made->name = dotted_name();
    if (!is_soft_ && !known_.is_test(made->name))
      refuse(fmt::format("there is no test named '{}'", made->name));
    if (at_operator("(")) {
      arguments(*made);
    } else if (begins_an_argument()) {
      if (at_word("is")) refuse("two tests in a row");
      made->arguments.push_back(postfix(primary()));
    }
    return is_negated ? join(Operation::kNot, line, made) : made;
  }

  bool begins_an_argument() const {
    switch (now().kind) {
      case TokenKind::kName:
        return !at_any_word({"else", "or", "and"});
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kReal:
        return true;
      default:
        return at_operator("[") || at_operator("{");
    }
  }

  Syntax syntax_;
  const std::vector<Token> tokens_;
  const KnownNames& known_;
  Arena& arena_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_soft_ = false;     // within a condition, where jinja2 looks filters up only when they run
  bool is_in_loop_ = false;  // break and continue are allowed
};

}  // namespace outrider::jinja

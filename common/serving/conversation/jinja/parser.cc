// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/serving/conversation/jinja/expression_parser.h"
#include "common/serving/conversation/jinja/syntax.h"

namespace outrider::jinja {
namespace {

class Parser final : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Syntax run() {
    syntax_.block = statements({});
    if (now().kind != TokenKind::kEnd) refuse("a closing tag without an opening one");
    return std::move(syntax_);
  }

 private:
  // Parses statements up to a tag with one of these words, which is not consumed. Without words: up
  // to the end.
  Block statements(Words ends) {
    const Deeper deeper(*this);
    Block block;
    while (now().kind != TokenKind::kEnd) {
      arena_.steps().look(sizeof(Statement));
      Statement next;
      next.line = now().line;
      if (now().kind == TokenKind::kData) {
        next.value = constant(arena_.text(take().text, Origin::kTemplate));
      } else if (now().kind == TokenKind::kVariableBegin) {
        take();
        next.kind = StatementKind::kPrint;
        next.value = tuple(true);
        expect(TokenKind::kVariableEnd, "'}}'");
      } else {
        if (now().kind != TokenKind::kBlockBegin) refuse("a tag is missing");
        take();
        if (at_any_word(ends)) return block;
        next = statement();
        expect(TokenKind::kBlockEnd, "'%}'");
      }
      block.push_back(std::move(next));
    }
    if (ends.size() > 0) refuse(fmt::format("'{}' is missing", *(ends.end() - 1)));
    return block;
  }

  Block body(Words ends) {
    skip_operator(":");
    expect(TokenKind::kBlockEnd, "'%}'");
    return statements(ends);
  }
  Block whole_body(std::string_view end) {
    Block block = body({end});
    take();
    return block;
  }

  Statement statement() {
    using Rule = Statement (Parser::*)();
    static constexpr std::pair<std::string_view, Rule> kRules[] = {
        {"if", &Parser::if_statement},       {"for", &Parser::for_statement},
        {"set", &Parser::set_statement},     {"macro", &Parser::macro_statement},
        {"call", &Parser::call_statement},   {"filter", &Parser::filter_statement},
        {"with", &Parser::with_statement},   {"generation", &Parser::generation_statement},
        {"break", &Parser::leave_statement}, {"continue", &Parser::leave_statement}};
    if (now().kind != TokenKind::kName) refuse("the name of a tag is missing");
    const auto* rule = std::ranges::find(kRules, std::string_view(now().text),
                                         &std::pair<std::string_view, Rule>::first);
    if (rule == std::end(kRules)) refuse("this tag is not supported");
    const int line = now().line;
    Statement made = (this->*rule->second)();
    made.line = line;
    return made;
  }

  Statement if_statement() {
    const Deeper deeper(*this);
    take();
    const With soft(is_soft_, true);
    Statement made{.kind = StatementKind::kIf};
    made.value = tuple(false);
    made.body = body({"elif", "else", "endif"});
    if (at_word("elif")) {
      made.otherwise.push_back(if_statement());
      return made;
    }
    if (skip_word("else")) {
      made.otherwise = body({"endif"});
    }
    take();
    return made;
  }

  Statement for_statement() {
    take();
    Statement made{.kind = StatementKind::kFor};
    made.target = target(false, "in");
    if (!skip_word("in")) refuse("'in' is missing");
    made.value = tuple(false, "recursive");
    const With hard(is_soft_, false);
    if (skip_word("if")) made.condition = expression();
    made.is_recursive = skip_word("recursive");
    const With looping(is_in_loop_, true);
    made.body = body({"else", "endfor"});
    if (skip_word("else")) made.otherwise = body({"endfor"});
    take();
    return made;
  }

  Statement set_statement() {
    take();
    Statement made{.kind = StatementKind::kSet};
    made.target = target(true, {});
    if (skip_operator("=")) {
      made.value = tuple(true);
      return made;
    }
    made.kind = StatementKind::kSetBlock;
    while (at_operator("|")) made.value = filter(made.value);
    made.body = whole_body("endset");
    return made;
  }

  Statement macro_statement() {
    take();
    Statement made{.kind = StatementKind::kMacro};
    made.name = expect_name();
    parameters(made);
    macro_body(made, "endmacro");
    return made;
  }

  Statement call_statement() {
    take();
    Statement made{.kind = StatementKind::kCall};
    if (at_operator("(")) parameters(made);
    made.value = expression();
    if (made.value->operation != Operation::kCall) refuse("a call is missing");
    macro_body(made, "endcall");
    return made;
  }

  void macro_body(Statement& made, std::string_view end) {
    const With hard(is_soft_, false);
    const With outside(is_in_loop_, false);
    made.body = whole_body(end);
  }

  Statement filter_statement() {
    take();
    Statement made{.kind = StatementKind::kFilter};
    made.value = filter_call(nullptr);
    while (at_operator("|")) made.value = filter(made.value);
    made.body = whole_body("endfilter");
    return made;
  }

  Statement with_statement() {
    take();
    Statement made{.kind = StatementKind::kWith};
    while (now().kind != TokenKind::kBlockEnd) {
      if (!made.assignments.empty()) expect_operator(",");
      ExpressionPtr name = target(false, {});
      expect_operator("=");
      made.assignments.emplace_back(name, expression());
    }
    const With hard(is_soft_, false);
    made.body = whole_body("endwith");
    return made;
  }

  // Marks an assistant's text, for training: printed unchanged.
  Statement generation_statement() {
    take();
    Statement made{.kind = StatementKind::kGroup};
    made.body = whole_body("endgeneration");
    return made;
  }

  Statement leave_statement() {
    if (!is_in_loop_) refuse("this tag is outside a loop");
    return {.kind = take().text == "break" ? StatementKind::kBreak : StatementKind::kContinue};
  }

  void parameters(Statement& made) {
    expect_operator("(");
    while (!at_operator(")")) {
      if (!made.parameters.empty()) expect_operator(",");
      Parameter parameter{expect_name(), nullptr};
      if (skip_operator("=")) {
        parameter.standard = expression();
      } else if (!made.parameters.empty() && made.parameters.back().standard != nullptr) {
        refuse("a parameter without a default follows one with a default");
      }
      made.parameters.push_back(std::move(parameter));
    }
    take();
  }

  // A name, or several; an attribute of a namespace if allowed.
  ExpressionPtr target(bool with_attribute, std::string_view end) {
    std::vector<ExpressionPtr> names;
    bool is_tuple = false;
    do {
      if (!end.empty() && at_word(end)) break;
      if (skip_operator("(")) {
        names.push_back(target(with_attribute, {}));
        expect_operator(")");
      } else {
        ExpressionPtr name = make(Operation::kVariable);
        name->name = expect_name();
        if (with_attribute && skip_operator(".")) {
          ExpressionPtr attribute = join(Operation::kAttribute, now().line, name);
          attribute->name = expect_name();
          name = attribute;
        }
        names.push_back(name);
      }
      is_tuple = is_tuple || at_operator(",");
    } while (skip_operator(","));
    if (!is_tuple && names.size() == 1) return names.front();
    ExpressionPtr made = make(Operation::kTuple);
    made->parts = std::move(names);
    return made;
  }
};

}  // namespace

Syntax parse(std::string_view source, const KnownNames& known, Arena& arena) {
  return Parser(source, known, arena).run();
}

}  // namespace outrider::jinja

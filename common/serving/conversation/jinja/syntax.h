// The syntax tree of a chat template, and its parser.
//
// Thread rule: constant once parsed. Errors: a Failure names the line and what was expected.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/serving/conversation/jinja/value.h"

namespace outrider::jinja {

struct Expression;
using ExpressionPtr = Expression*;  // null: none
struct Statement;
using Block = std::vector<Statement>;

enum class Operation {
  kConstant,   // constant
  kVariable,   // name
  kList,       // [parts]
  kTuple,      // (parts)
  kDict,       // {parts[0]: parts[1], ..}
  kAttribute,  // parts[0].name
  kItem,       // parts[0][parts[1]]
  kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], each may be null
  kCall,       // parts[0](call)
  kFilter,     // parts[0]|name(call); parts[0] is null for the text of a block
  kTest,       // parts[0] is name(call)
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kIf,       // parts[1] if parts[0] else parts[2], which may be null
  kCompare,  // parts[0] comparisons[0] parts[1] comparisons[1] parts[2] and so on
  kConcat,   // parts[0] ~ parts[1] and so on
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};

enum class Comparison {
  kEqual,
  kUnequal,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn
};

struct Expression {
  Operation operation = Operation::kConstant;
  int line = 1;
  Value constant = {};
  std::string name = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<Comparison> comparisons = {};
  // The arguments of a call, a filter or a test.
  std::vector<ExpressionPtr> arguments = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
  ExpressionPtr more_arguments = {};  // *list
  ExpressionPtr more_named = {};      // **dictionary
};

enum class StatementKind {
  kText,      // value: a constant
  kPrint,     // {{ value }}
  kIf,        // body if value, else otherwise
  kFor,       // for target in value if condition; otherwise: if no item was left
  kSet,       // set target = value
  kSetBlock,  // set target: the body's text, through the filters of value, which may be null
  kMacro,     // macro name(parameters)
  kCall,      // the body becomes the caller of value, a call
  kFilter,    // the body's text through the filters of value
  kWith,      // a scope with assignments
  kGroup,     // the body
  kBreak,
  kContinue,
};

struct Parameter {
  std::string name;
  ExpressionPtr standard;  // null: none
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 1;
  ExpressionPtr value = {};
  ExpressionPtr condition = {};
  ExpressionPtr target = {};  // a variable, an attribute of a namespace, or a tuple of them
  std::string name = {};
  bool is_recursive = false;
  std::vector<Parameter> parameters = {};
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> assignments = {};
  Block body = {};
  Block otherwise = {};
};

// Whether a filter or test of that name is built in.
struct KnownNames {
  bool (*is_filter)(std::string_view name);
  bool (*is_test)(std::string_view name);
};

// A parsed template. The expressions lie in one place: as owners of each other, those of a long
// sum would end by calling themselves as often as it has parts.
struct Syntax {
  std::deque<Expression> expressions;
  Block block;
};

// Constants live in the arena, whose steps the parser takes.
Syntax parse(std::string_view source, const KnownNames& known, Arena& arena);

}  // namespace outrider::jinja

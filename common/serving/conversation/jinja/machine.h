// Runs a parsed chat template, within bounds of steps, memory, depth and output.
//
// Thread rule: one thread. Ownership: the arena and the template outlive it. Errors: a Failure
// where Python's jinja2 raises an exception, or RESOURCE_EXHAUSTED at a bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/serving/conversation/jinja/syntax.h"
#include "common/serving/conversation/jinja/value.h"

namespace outrider::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> names = {};

  const Value* find(std::string_view name, Steps& steps) const;
  void set(std::string_view name, const Value& value, Steps& steps);
};

class Machine final {
 public:
  Machine(Arena& arena, std::tm now) : arena_(arena), steps_(arena.steps()), now_(now) {}

  // The template's own variables remain in `scope`.
  void run(const Block& block, Scope& scope, TextBuilder& out);

  // For built-in filters, tests and methods.
  Arena& arena() { return arena_; }
  Steps& steps() { return steps_; }
  const std::tm& now() const { return now_; }
  Value call(const Value& function, const Arguments& arguments);
  // value.name, and value[key]; undefined if missing.
  Value attribute(const Value& value, std::string_view name);
  Value item(const Value& value, const Value& key);

 private:
  enum class Flow { kOn, kBreak, kContinue };

  Flow run_block(const Block& block, Scope& scope, TextBuilder& out);
  Flow run_statement(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_for(const Statement& statement, Scope& scope, TextBuilder& out);
  void loop_over(const Statement& statement, const Value& over, Scope& scope, TextBuilder& out,
                 int depth);
  void assign(const Expression& target, const Value& value, Scope& scope);
  Value macro(const Statement& statement, Scope& scope);
  Value run_macro(const Statement& statement, Scope& scope, const Arguments& arguments);
  Value text_of_block(const Block& block, Scope& scope);
  // Applies the filters of a block to its text.
  Value filtered(const Expression* filters, const Value& text, Scope& scope);

  Value evaluate(const Expression& expression, Scope& scope);
  Value evaluate_here(const Expression& expression, Scope& scope);
  Value variable(std::string_view name, const Scope& scope);
  Value literal(const Expression& expression, Scope& scope);
  Value call_expression(const Expression& expression, Scope& scope);
  Value conditional(const Expression& expression, Scope& scope);
  bool comparison(const Expression& expression, Scope& scope);
  Value concatenation(const Expression& expression, Scope& scope);
  Arguments arguments(const Expression& expression, Scope& scope);
  Scope& new_scope(Scope* parent);
  // The scopes that exist. end_scopes() frees those made since, unless a function made since may
  // refer to one of them.
  struct Scopes {
    std::size_t count = 0;
    std::int64_t references = 0;
  };
  Scopes scopes_now() const { return {scopes_.size(), references_}; }
  void end_scopes(const Scopes& since);

  Arena& arena_;
  Steps& steps_;
  const std::tm now_;
  std::deque<Scope> scopes_;
  std::int64_t references_ = 0;  // macros and recursive loops made, which refer to scopes
  int depth_ = 0;
};

// operators.cc
Value arithmetic(Machine& machine, Operation operation, const Value& a, const Value& b);
Value sliced(Machine& machine, const Value& value, const Value& begin, const Value& end,
             const Value& step);

// The items of a for statement; str(value); item in container.
const std::vector<Value>& items_of(Machine& machine, const Value& value);
TextData string_of(Machine& machine, const Value& value);
// Copies in parts, so that a deadline ends it in between.
void append_items(Machine& machine, std::span<const Value> from, std::vector<Value>& to);
bool contains(Machine& machine, const Value& container, const Value& item);

// filters.cc, value_filters.cc and builtins.cc
using Filter = Value (*)(Machine&, const Value&, const Arguments&, std::string_view name);
Filter find_value_filter(std::string_view name);  // null: none of that name
bool is_filter(std::string_view name);
bool is_test(std::string_view name);
Value apply_filter(Machine& machine, std::string_view name, const Value& value,
                   const Arguments& arguments);
bool apply_test(Machine& machine, std::string_view name, const Value& value,
                const Arguments& arguments);
// Adds range, namespace, raise_exception and the other functions.
void add_functions(Arena& arena, Scope& scope);

// methods.cc
bool has_method(const Value& value, std::string_view name);
Value call_method(Machine& machine, const Value& value, std::string_view name,
                  const Arguments& arguments);

// format.cc: text.format(arguments), and text % arguments as printf does.
Value format_braces(Machine& machine, const TextData& text, const Arguments& arguments);
Value format_percent(Machine& machine, const TextData& text, const Value& arguments);

// text.cc. side: -1 pads on the right, 1 on the left, 0 on both sides.
Value padded(Machine& machine, const TextData& text, const Value& width,
             const std::optional<Value>& fill, int side);
// Removes these characters, or white space.
TextData stripped(const TextData& text, std::optional<std::string_view> characters, bool left,
                  bool right, Steps& steps);
TextData replaced(const TextData& text, std::string_view old, const TextData& by,
                  std::int64_t count, Steps& steps);
TextData with_case(const TextData& text, bool upper, Steps& steps);
TextData escaped(const TextData& text, Steps& steps);  // & < > ' " in HTML form
// Visits where `wanted` occurs, without overlaps, from the left or from the right, as long as
// visit(start) is true. `wanted` is not empty. The time is linear in the length of both.
void each_match(std::string_view text, std::string_view wanted, bool from_right, Steps& steps,
                const std::function<bool(std::size_t)>& visit);
// The start of the first match; npos: there is none.
std::size_t find_match(std::string_view text, std::string_view wanted, bool from_right,
                       Steps& steps);

// The arguments of a call by parameter name; one that was not passed is empty. Errors: a Failure
// for too many, or for an unknown name.
using Bound = std::vector<std::optional<Value>>;
Bound bind(const Arguments& arguments, std::string_view function,
           std::initializer_list<std::string_view> parameters);
// Whether an argument was passed and is true.
bool is_set(const std::optional<Value>& value);
const TextData& text_argument(const Value& value, std::string_view function);
const TextData& text_argument(const std::optional<Value>& value, std::string_view function);
std::int64_t integer_argument(const Value& value, std::string_view function);

}  // namespace outrider::jinja

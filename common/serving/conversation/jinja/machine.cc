// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/jinja/machine.h"

#include <fmt/format.h>

#include <algorithm>

namespace outrider::jinja {
namespace {

constexpr int kMaxRunDepth = 150;  // nested macros, blocks and expressions

// Decrements a counter at the end of a C++ scope, also after a Failure.
class Deeper final {
 public:
  explicit Deeper(int& depth) : depth_(depth) {
    if (++depth_ > kMaxRunDepth) {
      throw Failure{resource_exhausted("the chat template calls itself too often")};
    }
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto& items = *loop.items;
  const auto length = std::ssize(items);
  const auto index = static_cast<std::int64_t>(loop.index);
  if (name == "index") return {index + 1};
  if (name == "index0") return {index};
  if (name == "revindex") return {length - index};
  if (name == "revindex0") return {length - index - 1};
  if (name == "first") return {index == 0};
  if (name == "last") return {index + 1 == length};
  if (name == "length") return {static_cast<std::int64_t>(length)};
  if (name == "depth") return {std::int64_t{loop.depth} + 1};
  if (name == "depth0") return {std::int64_t{loop.depth}};
  if (name == "previtem" && index > 0) return items[loop.index - 1];
  if (name == "nextitem" && index + 1 < length) return items[loop.index + 1];
  return {Undefined{name}};
}

}  // namespace

const Value* Scope::find(std::string_view name, Steps& steps) const {
  for (const auto& [own, value] : names) {
    steps.look(own.size() == name.size() ? 8 + name.size() : 8);
    if (own == name) return &value;
  }
  return nullptr;
}

void Scope::set(std::string_view name, const Value& value, Steps& steps) {
  if (const Value* found = find(name, steps)) {
    *const_cast<Value*>(found) = value;
  } else {
    names.emplace_back(name, value);
  }
}

Scope& Machine::new_scope(Scope* parent) {
  arena_.charge(sizeof(Scope) + sizeof(std::pair<std::string_view, Value>));
  return scopes_.emplace_back(Scope{parent, {}});
}

void Machine::end_scopes(const Scopes& since) {
  if (references_ != since.references) return;
  while (scopes_.size() > since.count) scopes_.pop_back();
}

void Machine::run(const Block& block, Scope& scope, TextBuilder& out) {
  run_block(block, scope, out);
}

Machine::Flow Machine::run_block(const Block& block, Scope& scope, TextBuilder& out) {
  const Deeper deeper(depth_);
  for (const Statement& statement : block) {
    if (const Flow flow = run_statement(statement, scope, out); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Machine::Flow Machine::run_statement(const Statement& statement, Scope& scope, TextBuilder& out) {
  steps_.take(1);
  switch (statement.kind) {
    case StatementKind::kText:
      out.append(*statement.value->constant.text());
      return Flow::kOn;
    case StatementKind::kPrint:
      append_string(evaluate(*statement.value, scope), out);
      return Flow::kOn;
    case StatementKind::kIf:
      return run_block(
          is_true(evaluate(*statement.value, scope)) ? statement.body : statement.otherwise, scope,
          out);
    case StatementKind::kFor:
      return run_for(statement, scope, out);
    case StatementKind::kSet:
      assign(*statement.target, evaluate(*statement.value, scope), scope);
      return Flow::kOn;
    case StatementKind::kSetBlock:
      assign(*statement.target,
             filtered(statement.value, text_of_block(statement.body, new_scope(&scope)), scope),
             scope);
      return Flow::kOn;
    case StatementKind::kMacro:
      scope.set(statement.name, macro(statement, scope), steps_);
      return Flow::kOn;
    case StatementKind::kCall: {
      Arguments given = arguments(*statement.value, scope);
      given.named.emplace_back("caller", macro(statement, scope));
      append_string(call(evaluate(*statement.value->parts[0], scope), given), out);
      return Flow::kOn;
    }
    case StatementKind::kFilter:
      append_string(
          filtered(statement.value, text_of_block(statement.body, new_scope(&scope)), scope), out);
      return Flow::kOn;
    case StatementKind::kWith: {
      Scope& inner = new_scope(&scope);
      for (const auto& [target, value] : statement.assignments)
        assign(*target, evaluate(*value, scope), inner);
      return run_block(statement.body, inner, out);
    }
    case StatementKind::kGroup:
      return run_block(statement.body, scope, out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

Machine::Flow Machine::run_for(const Statement& statement, Scope& scope, TextBuilder& out) {
  loop_over(statement, evaluate(*statement.value, scope), scope, out, 0);
  return Flow::kOn;
}

void Machine::loop_over(const Statement& statement, const Value& over, Scope& scope,
                        TextBuilder& out, int depth) {
  const std::vector<Value>* items = &items_of(*this, over);
  if (statement.condition != nullptr) {
    std::vector<Value> kept;
    for (const Value& item : *items) {
      const Scopes before = scopes_now();
      Scope& inner = new_scope(&scope);
      assign(*statement.target, item, inner);
      if (is_true(evaluate(*statement.condition, inner))) kept.push_back(item);
      end_scopes(before);
    }
    items = &arena_.list(std::move(kept)).list()->items;
  }
  if (items->empty()) {
    run_block(statement.otherwise, scope, out);
    return;
  }
  const Value loop = arena_.loop(Loop{items, 0, depth, nullptr, {}});
  if (statement.is_recursive) {
    ++references_;
    loop.loop()->recurse =
        arena_
            .function("loop",
                      [&statement, &scope, depth](Machine& machine, const Arguments& given) {
                        const Value next = bind(given, "loop", {"iterable"})[0].value_or(Value{});
                        TextBuilder inner(machine.steps());
                        machine.loop_over(statement, next, scope, inner, depth + 1);
                        return machine.arena().text(inner.take());
                      })
            .function();
  }
  for (Loop& at = *loop.loop(); at.index < items->size(); ++at.index) {
    steps_.take(1);
    const Scopes before = scopes_now();
    Scope& inner = new_scope(&scope);
    inner.names.reserve(2);
    inner.set("loop", loop, steps_);
    assign(*statement.target, (*items)[at.index], inner);
    const Flow flow = run_block(statement.body, inner, out);
    end_scopes(before);
    if (flow == Flow::kBreak) break;
  }
}

void Machine::assign(const Expression& target, const Value& value, Scope& scope) {
  if (target.operation == Operation::kVariable) {
    scope.set(target.name, value, steps_);
  } else if (target.operation == Operation::kAttribute) {
    const Value owner = evaluate(*target.parts[0], scope);
    if (owner.dict() == nullptr || !owner.dict()->is_namespace)
      fail("cannot assign attribute on non-namespace object");
    arena_.set(*owner.dict(), arena_.text(target.name, Origin::kTemplate), value);
  } else {
    const std::vector<Value>& items = items_of(*this, value);
    if (items.size() != target.parts.size()) {
      fail(fmt::format("{} values to unpack, expected {}", items.size(), target.parts.size()));
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i], scope);
  }
}

Value Machine::macro(const Statement& statement, Scope& scope) {
  ++references_;
  return arena_.function(statement.name.empty() ? "caller" : statement.name,
                         [&statement, &scope](Machine& machine, const Arguments& given) {
                           return machine.run_macro(statement, scope, given);
                         });
}

Value Machine::run_macro(const Statement& statement, Scope& scope, const Arguments& given) {
  Scope& inner = new_scope(&scope);
  std::vector<Value> more;
  for (std::size_t i = 0; i < given.positional.size(); ++i) {
    if (i < statement.parameters.size()) {
      inner.set(statement.parameters[i].name, given.positional[i], steps_);
    } else {
      more.push_back(given.positional[i]);
    }
  }
  Dict* more_named = arena_.dict();
  for (const auto& [name, value] : given.named) {
    steps_.take(1 + statement.parameters.size() / 4);
    const bool is_known =
        name == "caller" || std::ranges::find(statement.parameters, name, &Parameter::name) !=
                                statement.parameters.end();
    if (is_known) {
      inner.set(name, value, steps_);
    } else {
      arena_.set(*more_named, arena_.text(std::string(name), Origin::kTemplate), value);
    }
  }
  for (std::size_t i = given.positional.size(); i < statement.parameters.size(); ++i) {
    const Parameter& parameter = statement.parameters[i];
    if (inner.find(parameter.name, steps_) != nullptr) continue;
    inner.set(parameter.name,
              parameter.standard != nullptr ? evaluate(*parameter.standard, inner)
                                            : Value{Undefined{parameter.name}},
              steps_);
  }
  inner.set("varargs", arena_.list(std::move(more), true), steps_);
  inner.set("kwargs", {more_named}, steps_);
  return text_of_block(statement.body, inner);
}

Value Machine::text_of_block(const Block& block, Scope& scope) {
  TextBuilder out(steps_);
  run_block(block, scope, out);
  return arena_.text(out.take());
}

Value Machine::filtered(const Expression* filters, const Value& text, Scope& scope) {
  if (filters == nullptr) return text;
  return apply_filter(*this, filters->name, filtered(filters->parts[0], text, scope),
                      arguments(*filters, scope));
}

Value Machine::evaluate(const Expression& expression, Scope& scope) {
  const Deeper deeper(depth_);
  steps_.take(1);
  return evaluate_here(expression, scope);
}

Value Machine::evaluate_here(const Expression& expression, Scope& scope) {
  const auto part = [&](std::size_t i) { return evaluate(*expression.parts[i], scope); };
  switch (expression.operation) {
    case Operation::kConstant:
      return expression.constant;
    case Operation::kVariable:
      return variable(expression.name, scope);
    case Operation::kList:
    case Operation::kTuple:
    case Operation::kDict:
      return literal(expression, scope);
    case Operation::kAttribute:
      return attribute(part(0), expression.name);
    case Operation::kItem: {
      const Value value = part(0);
      return item(value, part(1));
    }
    case Operation::kSlice: {
      const auto bound = [&](std::size_t i) {
        return expression.parts[i] != nullptr ? part(i) : Value{None{}};
      };
      const Value value = part(0), begin = bound(1), end = bound(2);
      return sliced(*this, value, begin, end, bound(3));
    }
    case Operation::kCall:
      return call_expression(expression, scope);
    case Operation::kFilter: {
      const Value value = part(0);
      return apply_filter(*this, expression.name, value, arguments(expression, scope));
    }
    case Operation::kTest: {
      const Value value = part(0);
      return {apply_test(*this, expression.name, value, arguments(expression, scope))};
    }
    case Operation::kNot:
      return {!is_true(part(0))};
    case Operation::kAnd:
    case Operation::kOr: {
      const Value left = part(0);
      return is_true(left) == (expression.operation == Operation::kOr) ? left : part(1);
    }
    case Operation::kIf:
      return conditional(expression, scope);
    case Operation::kCompare:
      return {comparison(expression, scope)};
    case Operation::kConcat:
      return concatenation(expression, scope);
    case Operation::kNegative:
      return arithmetic(*this, Operation::kSubtract, {std::int64_t{0}}, part(0));
    case Operation::kPositive:
      return arithmetic(*this, Operation::kAdd, {std::int64_t{0}}, part(0));
    default: {
      const Value left = part(0);
      return arithmetic(*this, expression.operation, left, part(1));
    }
  }
}

Value Machine::conditional(const Expression& expression, Scope& scope) {
  if (is_true(evaluate(*expression.parts[0], scope))) return evaluate(*expression.parts[1], scope);
  if (expression.parts[2] == nullptr) return {Undefined{"the value without an else"}};
  return evaluate(*expression.parts[2], scope);
}

Value Machine::variable(std::string_view name, const Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    if (const Value* found = at->find(name, steps_)) return *found;
  }
  return {Undefined{name}};
}

Value Machine::literal(const Expression& expression, Scope& scope) {
  if (expression.operation == Operation::kDict) {
    Dict* made = arena_.dict();
    for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
      const Value key = evaluate(*expression.parts[i], scope);
      arena_.set(*made, key, evaluate(*expression.parts[i + 1], scope));
    }
    return {made};
  }
  std::vector<Value> items;
  items.reserve(expression.parts.size());
  for (const ExpressionPtr& part : expression.parts) items.push_back(evaluate(*part, scope));
  return arena_.list(std::move(items), expression.operation == Operation::kTuple);
}

Value Machine::attribute(const Value& value, std::string_view name) {
  require_defined(value);
  if (const Loop* loop = value.loop()) {
    if (!has_method(value, name)) return loop_attribute(*loop, name);
  } else if (const Dict* dict = value.dict();
             dict != nullptr && (dict->is_namespace || !has_method(value, name))) {
    const Value* found = dict->find(name, steps_);
    return found != nullptr ? *found : Value{Undefined{name}};
  }
  if (!has_method(value, name)) return {Undefined{name}};
  return arena_.function(std::string(name),
                         [value, name](Machine& machine, const Arguments& given) {
                           return call_method(machine, value, name, given);
                         });
}

Value Machine::item(const Value& value, const Value& key) {
  require_defined(value);
  if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    if (const Value* found = dict->find(key, steps_)) return *found;
  } else if (key.is_integer()) {
    const TextData* text = value.text();
    const List* list = value.list();
    if (text == nullptr && list == nullptr) return {Undefined{"the item"}};
    const auto length = static_cast<std::int64_t>(
        text != nullptr ? count_characters(text->bytes, steps_) : list->items.size());
    const std::int64_t at = key.integer() < 0 ? key.integer() + length : key.integer();
    if (at < 0 || at >= length) return {Undefined{"the item"}};
    if (list != nullptr) return list->items[static_cast<std::size_t>(at)];
    std::size_t byte = 0;
    steps_.look_closely(static_cast<std::size_t>(at));
    for (std::int64_t i = 0; i < at; ++i) byte = next_character(text->bytes, byte);
    return arena_.slice(*text, byte, next_character(text->bytes, byte) - byte);
  }
  if (key.text() != nullptr && (value.dict() == nullptr || has_method(value, key.text()->bytes))) {
    return attribute(value, key.text()->bytes);
  }
  return {Undefined{key.text() != nullptr ? std::string_view(key.text()->bytes) : "the item"}};
}

Arguments Machine::arguments(const Expression& expression, Scope& scope) {
  Arguments given;
  for (const ExpressionPtr& each : expression.arguments)
    given.positional.push_back(evaluate(*each, scope));
  for (const auto& [name, value] : expression.named)
    given.named.emplace_back(name, evaluate(*value, scope));
  if (expression.more_arguments != nullptr) {
    const std::vector<Value>& more = items_of(*this, evaluate(*expression.more_arguments, scope));
    steps_.look(more.size() * sizeof(Value));
    given.positional.insert(given.positional.end(), more.begin(), more.end());
  }
  if (expression.more_named != nullptr) {
    const Value more = evaluate(*expression.more_named, scope);
    if (more.dict() == nullptr)
      fail(fmt::format("argument after ** must be a mapping, not {}", more.type_name()));
    for (const auto& [name, value] : more.dict()->entries) {
      steps_.take(1);
      if (name.text() == nullptr) fail("keywords must be strings");
      given.named.emplace_back(name.text()->bytes, value);
    }
  }
  return given;
}

Value Machine::call_expression(const Expression& expression, Scope& scope) {
  const Expression& callee = *expression.parts[0];
  if (callee.operation != Operation::kAttribute) {
    const Value function = evaluate(callee, scope);
    return call(function, arguments(expression, scope));
  }
  // Calls a method directly, without making a function value of it first.
  const Value owner = evaluate(*callee.parts[0], scope);
  const bool is_method = !owner.is_undefined() && has_method(owner, callee.name) &&
                         (owner.dict() == nullptr || !owner.dict()->is_namespace);
  if (is_method) return call_method(*this, owner, callee.name, arguments(expression, scope));
  const Value function = attribute(owner, callee.name);
  if (function.is_undefined())
    fail(fmt::format("'{}' object has no attribute '{}'", owner.type_name(), callee.name));
  return call(function, arguments(expression, scope));
}

Value Machine::call(const Value& function, const Arguments& given) {
  require_defined(function);
  const Deeper deeper(depth_);
  if (const Loop* loop = function.loop(); loop != nullptr && loop->recurse != nullptr)
    return loop->recurse->call(*this, given);
  if (function.function() == nullptr)
    fail(fmt::format("'{}' object is not callable", function.type_name()));
  return function.function()->call(*this, given);
}

bool Machine::comparison(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    const Value right = evaluate(*expression.parts[i + 1], scope);
    const auto order = [&] {
      require_defined(left);
      require_defined(right);
      return compare(left, right, steps_);
    };
    const auto holds = [&] {
      switch (expression.comparisons[i]) {
        case Comparison::kEqual:
          return are_equal(left, right, steps_);
        case Comparison::kUnequal:
          return !are_equal(left, right, steps_);
        case Comparison::kLess:
          return order() < 0;
        case Comparison::kLessOrEqual:
          return order() <= 0;
        case Comparison::kGreater:
          return order() > 0;
        case Comparison::kGreaterOrEqual:
          return order() >= 0;
        case Comparison::kIn:
          return contains(*this, right, left);
        case Comparison::kNotIn:
          return !contains(*this, right, left);
      }
      return false;
    };
    if (!holds()) return false;
    left = right;
  }
  return true;
}

Value Machine::concatenation(const Expression& expression, Scope& scope) {
  TextBuilder out(steps_);
  for (const ExpressionPtr& part : expression.parts) append_string(evaluate(*part, scope), out);
  return arena_.text(out.take());
}

}  // namespace outrider::jinja

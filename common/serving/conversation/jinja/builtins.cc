// jinja2's built-in tests and functions, as far as chat templates use them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "common/serving/conversation/jinja/machine.h"

namespace outrider::jinja {
namespace {

const Value& other(const Arguments& given) {
  if (given.positional.size() != 1) fail("a test lacks the value to compare with");
  return given.positional[0];
}

using Test = bool (*)(Machine&, const Value&, const Arguments&);
bool order_test(Machine& machine, const Value& value, const Arguments& given, bool (*holds)(int)) {
  return holds(compare(value, other(given), machine.steps()));
}
bool equal_test(Machine& machine, const Value& value, const Arguments& given) {
  return are_equal(value, other(given), machine.steps());
}
bool unequal_test(Machine& machine, const Value& value, const Arguments& given) {
  return !equal_test(machine, value, given);
}
bool less_test(Machine& machine, const Value& value, const Arguments& given) {
  return order_test(machine, value, given, [](int order) { return order < 0; });
}
bool less_or_equal_test(Machine& machine, const Value& value, const Arguments& given) {
  return order_test(machine, value, given, [](int order) { return order <= 0; });
}
bool greater_test(Machine& machine, const Value& value, const Arguments& given) {
  return order_test(machine, value, given, [](int order) { return order > 0; });
}
bool greater_or_equal_test(Machine& machine, const Value& value, const Arguments& given) {
  return order_test(machine, value, given, [](int order) { return order >= 0; });
}
bool defined_test(Machine&, const Value& value, const Arguments&) {
  return !value.is_undefined();
}
bool undefined_test(Machine&, const Value& value, const Arguments&) {
  return value.is_undefined();
}
bool none_test(Machine&, const Value& value, const Arguments&) {
  return value.is_none();
}
bool boolean_test(Machine&, const Value& value, const Arguments&) {
  return std::holds_alternative<bool>(value.held);
}
bool true_test(Machine&, const Value& value, const Arguments&) {
  const bool* held = std::get_if<bool>(&value.held);
  return held != nullptr && *held;
}
bool false_test(Machine&, const Value& value, const Arguments&) {
  const bool* held = std::get_if<bool>(&value.held);
  return held != nullptr && !*held;
}
bool integer_test(Machine&, const Value& value, const Arguments&) {
  return std::holds_alternative<std::int64_t>(value.held);
}
bool float_test(Machine&, const Value& value, const Arguments&) {
  return std::holds_alternative<double>(value.held);
}
bool number_test(Machine&, const Value& value, const Arguments&) {
  return value.is_number();
}
bool string_test(Machine&, const Value& value, const Arguments&) {
  return value.text() != nullptr;
}
bool mapping_test(Machine&, const Value& value, const Arguments&) {
  return value.dict() != nullptr && !value.dict()->is_namespace;
}
bool sequence_test(Machine& machine, const Value& value, const Arguments& given) {
  return value.text() != nullptr || (value.list() != nullptr && !value.list()->is_generator) ||
         mapping_test(machine, value, given) || value.is_undefined();
}
bool iterable_test(Machine& machine, const Value& value, const Arguments& given) {
  return sequence_test(machine, value, given) || value.list() != nullptr || value.loop() != nullptr;
}
bool callable_test(Machine&, const Value& value, const Arguments&) {
  return value.function() != nullptr || value.loop() != nullptr;
}
bool in_test(Machine& machine, const Value& value, const Arguments& given) {
  return contains(machine, other(given), value);
}
bool same_test(Machine& machine, const Value& value, const Arguments& given) {
  const Value& wanted = other(given);
  if (value.list() != nullptr || value.dict() != nullptr) {
    return value.list() == wanted.list() && value.dict() == wanted.dict();
  }
  return value.held.index() == wanted.held.index() && are_equal(value, wanted, machine.steps());
}
std::int64_t modulo(const Value& value, std::int64_t by) {
  if (!value.is_integer() || by == 0) fail("a test of divisibility takes integers");
  return by == -1 ? 0 : value.integer() % by;
}
bool odd_test(Machine&, const Value& value, const Arguments&) {
  return modulo(value, 2) != 0;
}
bool even_test(Machine&, const Value& value, const Arguments&) {
  return modulo(value, 2) == 0;
}
bool divisible_test(Machine&, const Value& value, const Arguments& given) {
  return modulo(value, integer_argument(other(given), "divisibleby")) == 0;
}
bool lower_test(Machine& machine, const Value& value, const Arguments&) {
  return is_true(
      call_method(machine, machine.arena().text(string_of(machine, value)), "islower", {}));
}
bool upper_test(Machine& machine, const Value& value, const Arguments&) {
  return is_true(
      call_method(machine, machine.arena().text(string_of(machine, value)), "isupper", {}));
}
bool escaped_test(Machine&, const Value& value, const Arguments&) {
  return value.text() != nullptr && value.text()->is_markup;
}
bool filter_test(Machine&, const Value& value, const Arguments&) {
  return value.text() != nullptr && is_filter(value.text()->bytes);
}
bool test_test(Machine&, const Value& value, const Arguments&) {
  return value.text() != nullptr && is_test(value.text()->bytes);
}

constexpr std::pair<std::string_view, Test> kTests[] = {{"==", equal_test},
                                                        {"eq", equal_test},
                                                        {"equalto", equal_test},
                                                        {"!=", unequal_test},
                                                        {"ne", unequal_test},
                                                        {"<", less_test},
                                                        {"lt", less_test},
                                                        {"lessthan", less_test},
                                                        {"<=", less_or_equal_test},
                                                        {"le", less_or_equal_test},
                                                        {">", greater_test},
                                                        {"gt", greater_test},
                                                        {"greaterthan", greater_test},
                                                        {">=", greater_or_equal_test},
                                                        {"ge", greater_or_equal_test},
                                                        {"defined", defined_test},
                                                        {"undefined", undefined_test},
                                                        {"none", none_test},
                                                        {"boolean", boolean_test},
                                                        {"true", true_test},
                                                        {"false", false_test},
                                                        {"integer", integer_test},
                                                        {"float", float_test},
                                                        {"number", number_test},
                                                        {"string", string_test},
                                                        {"mapping", mapping_test},
                                                        {"sequence", sequence_test},
                                                        {"iterable", iterable_test},
                                                        {"callable", callable_test},
                                                        {"in", in_test},
                                                        {"sameas", same_test},
                                                        {"odd", odd_test},
                                                        {"even", even_test},
                                                        {"divisibleby", divisible_test},
                                                        {"lower", lower_test},
                                                        {"upper", upper_test},
                                                        {"escaped", escaped_test},
                                                        {"filter", filter_test},
                                                        {"test", test_test}};

Value range_function(Machine& machine, const Arguments& given) {
  constexpr std::int64_t kMaxRange = 100'000;
  const Bound bound = bind(given, "range", {"start", "stop", "step"});
  if (!bound[0]) fail("range expected at least 1 argument");
  const std::int64_t first = integer_argument(*bound[0], "range");
  const std::int64_t begin = bound[1] ? first : 0,
                     end = bound[1] ? integer_argument(*bound[1], "range") : first;
  const std::int64_t step = bound[2] ? integer_argument(*bound[2], "range") : 1;
  if (step == 0) fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (std::ssize(items) >= kMaxRange) fail("Range too big.");
    machine.steps().take(1);
    items.push_back({at});
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return machine.arena().list(std::move(items));
}

// dict(a=1) and namespace(a=1).
Value dict_function(Machine& machine, const Arguments& given, bool is_namespace) {
  Dict* made = machine.arena().dict(is_namespace);
  for (const Value& from : given.positional) {
    if (from.dict() != nullptr) {
      for (const auto& [key, value] : from.dict()->entries) machine.arena().set(*made, key, value);
      continue;
    }
    for (const Value& pair : items_of(machine, from)) {
      const std::vector<Value>& items = items_of(machine, pair);
      if (items.size() != 2) fail("dictionary update sequence element does not have length 2");
      machine.arena().set(*made, items[0], items[1]);
    }
  }
  for (const auto& [name, value] : given.named)
    machine.arena().set(*made, machine.arena().text(std::string(name), Origin::kTemplate), value);
  return {made};
}

Value strftime_function(Machine& machine, const Arguments& given) {
  const Bound bound = bind(given, "strftime_now", {"format"});
  const std::string& format = text_argument(bound[0], "strftime_now").bytes;
  if (format.size() > 256) fail("strftime_now() takes a format of at most 256 bytes");
  std::string text(1024, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &machine.now()));
  return machine.arena().text(std::move(text), Origin::kTemplate);
}

Value joiner_function(Machine& machine, const Arguments& given) {
  const Value separator =
      bind(given, "joiner", {"sep"})[0].value_or(machine.arena().text(", ", Origin::kTemplate));
  const auto used = std::make_shared<bool>(false);
  return machine.arena().function("joiner", [separator, used](Machine& inner, const Arguments&) {
    return std::exchange(*used, true) ? separator : inner.arena().text({}, Origin::kTemplate);
  });
}

}  // namespace

bool is_test(std::string_view name) {
  return std::ranges::find(kTests, name, &std::pair<std::string_view, Test>::first) !=
         std::end(kTests);
}

bool apply_test(Machine& machine, std::string_view name, const Value& value,
                const Arguments& arguments) {
  const auto* found = std::ranges::find(kTests, name, &std::pair<std::string_view, Test>::first);
  if (found == std::end(kTests)) fail(fmt::format("there is no test named '{}'", name));
  return found->second(machine, value, arguments);
}

void add_functions(Arena& arena, Scope& scope) {
  const auto add = [&](std::string_view name,
                       std::function<Value(Machine&, const Arguments&)> call) {
    scope.set(name, arena.function(std::string(name), std::move(call)), arena.steps());
  };
  add("range", range_function);
  add("dict", [](Machine& machine, const Arguments& given) {
    return dict_function(machine, given, false);
  });
  add("namespace",
      [](Machine& machine, const Arguments& given) { return dict_function(machine, given, true); });
  add("joiner", joiner_function);
  add("strftime_now", strftime_function);
  add("raise_exception", [](Machine& machine, const Arguments& given) -> Value {
    const Bound bound = bind(given, "raise_exception", {"message"});
    fail(bound[0] ? printable(string_of(machine, *bound[0]).bytes)
                  : "the template refuses this conversation");
  });
}

}  // namespace outrider::jinja

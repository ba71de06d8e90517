// Python's operators: arithmetic and slices of numbers, strings and lists, and membership.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/serving/conversation/jinja/machine.h"

namespace outrider::jinja {
namespace {

std::int64_t combine(bool (*operation)(std::int64_t, std::int64_t, std::int64_t*), std::int64_t a,
                     std::int64_t b) {
  std::int64_t result = 0;
  if (operation(a, b, &result)) fail("a number is out of range");
  return result;
}
bool add_overflows(std::int64_t a, std::int64_t b, std::int64_t* sum) {
  return __builtin_add_overflow(a, b, sum);
}
bool subtract_overflows(std::int64_t a, std::int64_t b, std::int64_t* difference) {
  return __builtin_sub_overflow(a, b, difference);
}
bool multiply_overflows(std::int64_t a, std::int64_t b, std::int64_t* product) {
  return __builtin_mul_overflow(a, b, product);
}

// Python's // and %, which round towards minus infinity.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("integer division or modulo by zero");
  if (b == -1) return combine(subtract_overflows, 0, a);
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) result = combine(multiply_overflows, result, base);
  return result;
}

// [begin, end) and step of a slice over `length` items, as Python counts them.
struct Range {
  std::int64_t begin, end, step;
};
Range range_of(std::int64_t length, const Value& begin, const Value& end, const Value& step) {
  const auto number = [](const Value& value, std::int64_t standard) {
    if (value.is_none()) return standard;
    if (!value.is_integer()) fail("slice indices must be integers or None");
    return value.integer();
  };
  // A longer step picks nothing more.
  Range range{0, 0, std::clamp(number(step, 1), -length - 1, length + 1)};
  if (range.step == 0) fail("slice step cannot be zero");
  const std::int64_t low = range.step > 0 ? 0 : -1, high = range.step > 0 ? length : length - 1;
  const auto clamp = [&](std::int64_t at) {
    return std::clamp(at < 0 ? at + length : at, low, high);
  };
  range.begin = begin.is_none() ? (range.step > 0 ? low : high) : clamp(number(begin, 0));
  range.end = end.is_none() ? (range.step > 0 ? high : low) : clamp(number(end, 0));
  return range;
}

Value multiply(Machine& machine, const Value& a, const Value& b) {
  const bool repeats = (a.text() != nullptr || a.list() != nullptr) && b.is_integer();
  if (!repeats) {
    if (b.text() != nullptr || b.list() != nullptr) {
      if (a.is_integer()) return multiply(machine, b, a);
    }
    fail(fmt::format("unsupported operand type(s) for *: '{}' and '{}'", a.type_name(),
                     b.type_name()));
  }
  const std::int64_t count = std::max<std::int64_t>(b.integer(), 0);
  if (const TextData* text = a.text()) {
    TextBuilder out(machine.steps());
    for (std::int64_t i = 0; i < count && !text->bytes.empty(); ++i) {
      machine.steps().take(1);
      out.append(*text);
    }
    return machine.arena().text(out.take());
  }
  std::vector<Value> items;
  for (std::int64_t i = 0; i < count && !a.list()->items.empty(); ++i)
    append_items(machine, a.list()->items, items);
  return machine.arena().list(std::move(items), a.list()->is_tuple);
}

}  // namespace

void append_items(Machine& machine, std::span<const Value> from, std::vector<Value>& to) {
  constexpr std::size_t kAtOnce = 4096;
  for (std::size_t at = 0; at < from.size(); at += kAtOnce) {
    const auto part = from.subspan(at, std::min(kAtOnce, from.size() - at));
    machine.steps().take(1 + part.size() / 2);
    to.insert(to.end(), part.begin(), part.end());
  }
}

Value sliced(Machine& machine, const Value& value, const Value& begin, const Value& end,
             const Value& step) {
  require_defined(value);
  if (const TextData* text = value.text()) {
    std::vector<std::size_t> starts;  // of the characters
    for (std::size_t at = 0; at < text->bytes.size(); at = next_character(text->bytes, at)) {
      machine.steps().look_closely(1);
      starts.push_back(at);
    }
    const Range range = range_of(std::ssize(starts), begin, end, step);
    starts.push_back(text->bytes.size());
    const auto start = [&](std::int64_t at) { return starts[static_cast<std::size_t>(at)]; };
    if (range.step == 1) {
      return machine.arena().slice(
          *text, start(range.begin),
          range.end > range.begin ? start(range.end) - start(range.begin) : 0);
    }
    TextBuilder picked(machine.steps());
    for (std::int64_t at = range.begin; range.step > 0 ? at < range.end : at > range.end;
         at += range.step) {
      picked.append(*text, start(at), start(at + 1) - start(at));
    }
    return machine.arena().text(picked.take());
  }
  const List* list = value.list();
  if (list == nullptr) fail(fmt::format("'{}' object is not subscriptable", value.type_name()));
  const Range range = range_of(std::ssize(list->items), begin, end, step);
  std::vector<Value> items;
  for (std::int64_t at = range.begin; range.step > 0 ? at < range.end : at > range.end;
       at += range.step) {
    machine.steps().look(sizeof(Value));
    items.push_back(list->items[static_cast<std::size_t>(at)]);
  }
  return machine.arena().list(std::move(items), list->is_tuple);
}

Value add(Machine& machine, const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) {
    const bool is_markup = a.text()->is_markup || b.text()->is_markup;
    TextBuilder out(machine.steps());
    out.expect(a.text()->bytes.size() + b.text()->bytes.size());
    for (const TextData* text : {a.text(), b.text()})
      out.append(is_markup && !text->is_markup ? escaped(*text, machine.steps()) : *text);
    TextData text = out.take();
    text.is_markup = is_markup;
    return machine.arena().text(std::move(text));
  }
  if (a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple) {
    std::vector<Value> items;
    append_items(machine, a.list()->items, items);
    append_items(machine, b.list()->items, items);
    return machine.arena().list(std::move(items), a.list()->is_tuple);
  }
  fail(fmt::format("unsupported operand type(s) for +: '{}' and '{}'", a.type_name(),
                   b.type_name()));
}

Value arithmetic(Machine& machine, Operation operation, const Value& a, const Value& b) {
  require_defined(a);
  if (operation == Operation::kModulo && a.text() != nullptr)
    return format_percent(machine, *a.text(), b);
  require_defined(b);
  if (!a.is_number() || !b.is_number()) {
    if (operation == Operation::kAdd) return add(machine, a, b);
    if (operation == Operation::kMultiply) return multiply(machine, a, b);
    fail(fmt::format("unsupported operand types: '{}' and '{}'", a.type_name(), b.type_name()));
  }
  if (operation == Operation::kDivide) {
    if (b.real() == 0) fail("division by zero");
    return {a.real() / b.real()};
  }
  if (a.is_integer() && b.is_integer()) {
    const std::int64_t x = a.integer(), y = b.integer();
    switch (operation) {
      case Operation::kAdd:
        return {combine(add_overflows, x, y)};
      case Operation::kSubtract:
        return {combine(subtract_overflows, x, y)};
      case Operation::kMultiply:
        return {combine(multiply_overflows, x, y)};
      case Operation::kFloorDivide:
        return {floor_divide(x, y)};
      case Operation::kModulo:
        return {y == -1 ? 0 : x - floor_divide(x, y) * y};
      default:
        if (y >= 0) return {power(x, y)};
    }
  }
  const double x = a.real(), y = b.real();
  switch (operation) {
    case Operation::kAdd:
      return {x + y};
    case Operation::kSubtract:
      return {x - y};
    case Operation::kMultiply:
      return {x * y};
    case Operation::kPower:
      return {std::pow(x, y)};
    default:
      if (y == 0) fail("float floor division by zero");
      return {operation == Operation::kFloorDivide ? std::floor(x / y) : x - std::floor(x / y) * y};
  }
}

const std::vector<Value>& items_of(Machine& machine, const Value& value) {
  if (value.list() != nullptr) return value.list()->items;
  if (value.loop() != nullptr) return *value.loop()->items;
  std::vector<Value> items;
  if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    for (const auto& [key, _] : dict->entries) {
      machine.steps().look(sizeof(Value));
      items.push_back(key);
    }
  } else if (const TextData* text = value.text()) {
    for (std::size_t at = 0; at < text->bytes.size();) {
      const std::size_t next = next_character(text->bytes, at);
      items.push_back(machine.arena().slice(*text, at, next - at));
      at = next;
    }
  } else if (!value.is_undefined()) {
    fail(fmt::format("'{}' object is not iterable", value.type_name()));
  }
  return machine.arena().list(std::move(items)).list()->items;
}

TextData string_of(Machine& machine, const Value& value) {
  if (const TextData* text = value.text()) {
    machine.steps().look(text->bytes.size());
    return *text;
  }
  TextBuilder out(machine.steps());
  append_string(value, out);
  return out.take();
}

bool contains(Machine& machine, const Value& container, const Value& item) {
  if (const TextData* text = container.text()) {
    if (item.text() == nullptr) {
      fail(fmt::format("'in <string>' requires string as left operand, not {}", item.type_name()));
    }
    return find_match(text->bytes, item.text()->bytes, false, machine.steps()) != std::string::npos;
  }
  if (const Dict* dict = container.dict(); dict != nullptr && !dict->is_namespace) {
    return dict->find(item, machine.steps()) != nullptr;
  }
  return std::ranges::any_of(items_of(machine, container), [&](const Value& each) {
    return are_equal(each, item, machine.steps());
  });
}

}  // namespace outrider::jinja

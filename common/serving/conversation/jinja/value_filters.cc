// jinja2's built-in filters of single values, as far as chat templates use them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/serving/conversation/jinja/machine.h"

namespace outrider::jinja {
namespace {

Value indent_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  const Bound bound = bind(given, name, {"width", "first", "blank"});
  TextData by;
  if (bound[0] && bound[0]->text() != nullptr) {
    by = *bound[0]->text();
  } else {
    by.bytes.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(
                        bound[0] ? integer_argument(*bound[0], name) : 4, 0, 10'000)),
                    ' ');
  }
  TextBuilder with_end(machine.steps());
  with_end.append(string_of(machine, value));
  with_end.append("\n", Origin::kTemplate);
  const Value lines = call_method(machine, machine.arena().text(with_end.take()), "splitlines", {});
  TextBuilder out(machine.steps());
  if (is_set(bound[1])) out.append(by);
  for (std::size_t i = 0; i < lines.list()->items.size(); ++i) {
    const TextData& line = *lines.list()->items[i].text();
    if (i > 0) out.append("\n", Origin::kTemplate);
    if (i > 0 && (is_set(bound[2]) || !line.bytes.empty())) out.append(by);
    out.append(line);
  }
  return machine.arena().text(out.take());
}

Value tojson_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  const Bound bound = bind(given, name, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = is_set(bound[0]);
  if (bound[1] && !bound[1]->is_none()) {
    style.indent =
        static_cast<int>(std::clamp<std::int64_t>(integer_argument(*bound[1], name), 0, 64));
    style.item_separator = ",";
  }
  if (bound[2] && !bound[2]->is_none()) {
    const std::vector<Value>& separators = items_of(machine, *bound[2]);
    if (separators.size() != 2) fail("tojson() takes two separators");
    style.item_separator = text_argument(separators[0], name).bytes;
    style.key_separator = text_argument(separators[1], name).bytes;
  }
  style.sort_keys = is_set(bound[3]);
  TextBuilder out(machine.steps());
  append_json(value, style, out);
  return machine.arena().text(out.take());
}

Value int_filter(Machine& machine, const Value& value, const Arguments& given,
                 std::string_view name) {
  const Bound bound = bind(given, name, {"default", "base"});
  const Value standard = bound[0].value_or(Value{std::int64_t{0}});
  if (value.is_integer()) return {value.integer()};
  double real = 0;
  if (std::holds_alternative<double>(value.held)) {
    real = value.real();
  } else if (value.text() != nullptr) {
    const std::string text =
        stripped(*value.text(), std::nullopt, true, true, machine.steps()).bytes;
    machine.steps().look_closely(text.size());
    std::int64_t integer = 0;
    const char* end = text.data() + text.size();
    const bool has_plus = text.starts_with('+');
    if (std::from_chars(text.data() + has_plus, end, integer).ptr == end && text.size() > has_plus)
      return {integer};
    const auto read = std::from_chars(text.data() + has_plus, end, real);
    if (read.ec != std::errc() || read.ptr != end) return standard;
  } else {
    return standard;
  }
  if (!std::isfinite(real) || std::abs(real) > 9e18) return standard;
  return {static_cast<std::int64_t>(real)};
}

Value float_filter(Machine& machine, const Value& value, const Arguments& given,
                   std::string_view name) {
  const Bound bound = bind(given, name, {"default"});
  if (value.is_number()) return {value.real()};
  if (value.text() != nullptr) {
    const std::string text =
        stripped(*value.text(), std::nullopt, true, true, machine.steps()).bytes;
    machine.steps().look_closely(text.size());
    double real = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), real);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return {real};
  }
  return bound[0].value_or(Value{0.0});
}

Value round_filter(Machine&, const Value& value, const Arguments& given, std::string_view name) {
  const Bound bound = bind(given, name, {"precision", "method"});
  if (!value.is_number())
    fail(fmt::format("type {} doesn't define __round__ method", value.type_name()));
  const double factor =
      std::pow(10.0, bound[0] ? static_cast<double>(integer_argument(*bound[0], name)) : 0);
  const std::string method = bound[1] ? text_argument(bound[1], name).bytes : "common";
  const double scaled = value.real() * factor;
  if (method == "ceil") return {std::ceil(scaled) / factor};
  if (method == "floor") return {std::floor(scaled) / factor};
  return {std::nearbyint(scaled) / factor};
}

Value default_filter(Machine& machine, const Value& value, const Arguments& given,
                     std::string_view name) {
  const Bound bound = bind(given, name, {"default_value", "boolean"});
  const bool is_missing = value.is_undefined() || (is_set(bound[1]) && !is_true(value));
  return is_missing ? bound[0].value_or(machine.arena().text({}, Origin::kTemplate)) : value;
}

Value string_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  bind(given, name, {});
  if (value.text() != nullptr && name == "string") return value;
  TextData text = string_of(machine, value);
  if (name == "escape" || name == "e")
    return machine.arena().text(text.is_markup ? std::move(text) : escaped(text, machine.steps()));
  text.is_markup = name == "safe";
  return machine.arena().text(std::move(text));
}

// Filters that are methods of a text.
Value text_filter(Machine& machine, const Value& value, const Arguments& given,
                  std::string_view name) {
  const Value text = machine.arena().text(string_of(machine, value));
  return call_method(machine, text, name == "trim" ? "strip" : name, given);
}

Value center_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  const Bound bound = bind(given, name, {"width"});
  return call_method(machine, machine.arena().text(string_of(machine, value)), "center",
                     {{bound[0].value_or(Value{std::int64_t{80}})}, {}});
}

Value replace_filter(Machine& machine, const Value& value, const Arguments& given,
                     std::string_view name) {
  const Bound bound = bind(given, name, {"old", "new", "count"});
  if (!bound[0] || !bound[1]) fail("replace() lacks an argument");
  const TextData text = string_of(machine, value);
  const bool counted = bound[2] && !bound[2]->is_none();
  return machine.arena().text(
      replaced(text, string_of(machine, *bound[0]).bytes, string_of(machine, *bound[1]),
               counted ? integer_argument(*bound[2], name) : -1, machine.steps()));
}

Value truncate_filter(Machine& machine, const Value& value, const Arguments& given,
                      std::string_view name) {
  const Bound bound = bind(given, name, {"length", "killwords", "end", "leeway"});
  constexpr std::int64_t kMost = kMaxTextBytes;  // no text is longer
  const auto number = [&](const std::optional<Value>& given_value, std::int64_t standard) {
    return given_value && !given_value->is_none()
               ? std::clamp(integer_argument(*given_value, name), -kMost, kMost)
               : standard;
  };
  const std::int64_t length = number(bound[0], 255), leeway = number(bound[3], 5);
  const TextData end =
      bound[2] ? text_argument(*bound[2], name) : TextData{"...", {}, Origin::kTemplate, false};
  const Value text = machine.arena().text(string_of(machine, value));
  const auto characters =
      static_cast<std::int64_t>(count_characters(text.text()->bytes, machine.steps()));
  if (characters <= length + leeway) return text;
  std::int64_t kept =
      length - static_cast<std::int64_t>(count_characters(end.bytes, machine.steps()));
  if (kept < 0) fail("truncate() takes a length not below that of its end");
  machine.steps().look_closely(static_cast<std::size_t>(kept));
  std::size_t at = 0;
  for (; kept > 0; --kept) at = next_character(text.text()->bytes, at);
  if (!is_set(bound[1])) {
    const std::size_t space = std::string_view(text.text()->bytes).substr(0, at).rfind(' ');
    if (space != std::string_view::npos) at = space;
  }
  TextBuilder out(machine.steps());
  out.append(*text.text(), 0, at);
  out.append(end);
  return machine.arena().text(out.take());
}

Value wordcount_filter(Machine& machine, const Value& value, const Arguments& given,
                       std::string_view name) {
  bind(given, name, {});
  const Value words =
      call_method(machine, machine.arena().text(string_of(machine, value)), "split", {});
  return {static_cast<std::int64_t>(words.list()->items.size())};
}

Value abs_filter(Machine&, const Value& value, const Arguments& given, std::string_view name) {
  bind(given, name, {});
  if (!value.is_number()) fail(fmt::format("bad operand type for abs(): '{}'", value.type_name()));
  if (!value.is_integer()) return {std::abs(value.real())};
  if (value.integer() == INT64_MIN) fail("a number is out of range");
  return {std::abs(value.integer())};
}

Value format_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  if (!given.named.empty()) fail("format() with names is not supported");
  return format_percent(machine, text_argument(value, name),
                        machine.arena().list(given.positional, true));
}

constexpr std::pair<std::string_view, Filter> kValueFilters[] = {
    {"abs", abs_filter},         {"capitalize", text_filter},
    {"center", center_filter},   {"d", default_filter},
    {"default", default_filter}, {"e", string_filter},
    {"escape", string_filter},   {"float", float_filter},
    {"format", format_filter},   {"indent", indent_filter},
    {"int", int_filter},         {"lower", text_filter},
    {"replace", replace_filter}, {"round", round_filter},
    {"safe", string_filter},     {"string", string_filter},
    {"title", text_filter},      {"tojson", tojson_filter},
    {"trim", text_filter},       {"truncate", truncate_filter},
    {"upper", text_filter},      {"wordcount", wordcount_filter}};

}  // namespace

Filter find_value_filter(std::string_view name) {
  const auto* found =
      std::ranges::find(kValueFilters, name, &std::pair<std::string_view, Filter>::first);
  return found != std::end(kValueFilters) ? found->second : nullptr;
}

}  // namespace outrider::jinja

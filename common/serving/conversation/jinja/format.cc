// Python's two ways to format a string: "{} {name}".format(..) and "%s %d" % (..).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "common/serving/conversation/jinja/machine.h"

namespace outrider::jinja {
namespace {

// Formats a number by "{:05.2f}" or "%05.2f": flags, width, precision, type.
std::string formatted_number(const Value& value, std::string_view spec) {
  const char type = spec.empty() ? 'd' : spec.back();
  if (!value.is_number()) fail(fmt::format("a number is required, not {}", value.type_name()));
  if (spec.size() > 8 ||
      spec.find_first_not_of("0123456789.,+- dfeEgGxXobn%") != std::string_view::npos) {
    fail(fmt::format("the format {} is not supported", printable(spec)));
  }
  for (std::size_t at = 0; (at = spec.find_first_of("0123456789", at)) != std::string_view::npos;) {
    int number = 0;  // a width or a precision
    const auto read = std::from_chars(spec.data() + at, spec.data() + spec.size(), number);
    if (number > 1000) fail("the width of a format is out of range");
    at = static_cast<std::size_t>(read.ptr - spec.data());
  }
  if (spec.find(',') != std::string_view::npos) fail("the format ',' is not supported");
  try {
    const bool is_real = std::string_view("feEgG").find(type) != std::string_view::npos;
    const std::string format = fmt::format("{{:{}}}", spec);
    if (is_real || !value.is_integer()) return fmt::format(fmt::runtime(format), value.real());
    return fmt::format(fmt::runtime(format), value.integer());
  } catch (const fmt::format_error&) {
    fail(fmt::format("the format {} is not supported", printable(spec)));
  }
}

void append_formatted(Machine& machine, const Value& value, std::string_view spec,
                      TextBuilder& out) {
  if (spec.empty() || (spec == "s" && value.text() != nullptr)) {
    append_string(value, out);
  } else if (const TextData* text = value.text()) {
    int width = 0;
    const bool right = spec.starts_with('>'), left = spec.starts_with('<');
    const std::string_view digits = spec.substr(right || left ? 1 : 0);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), width);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size())
      fail(fmt::format("the format {} is not supported", printable(spec)));
    out.append(*padded(machine, *text, {std::int64_t{width}}, std::nullopt, right ? 1 : -1).text());
  } else {
    out.append(formatted_number(value, spec), Origin::kTemplate);
  }
}

// The value that a field names: "{} {0} {name} {0[key]}".
Value field_value(Machine& machine, std::string_view field, std::size_t& next,
                  const Arguments& given) {
  const std::size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  Value value;
  std::size_t index = 0;
  const bool is_index =
      first.empty() || std::from_chars(first.data(), first.data() + first.size(), index).ptr ==
                           first.data() + first.size();
  if (is_index) {
    if (first.empty()) index = next++;
    if (index >= given.positional.size())
      fail("Replacement index is out of range for positional args tuple");
    value = given.positional[index];
  } else {
    machine.steps().take(1 + given.named.size() / 8);
    const auto found =
        std::ranges::find(given.named, first, &std::pair<std::string_view, Value>::first);
    if (found == given.named.end())
      fail(fmt::format("the format names {}, which was not passed", printable(first)));
    value = found->second;
  }
  if (end == field.size()) return value;
  if (field[end] == '[' && field.ends_with(']')) {
    return machine.item(
        value, machine.arena().text(std::string(field.substr(end + 1, field.size() - end - 2)),
                                    Origin::kTemplate));
  }
  return machine.attribute(
      value,
      machine.arena().text(std::string(field.substr(end + 1)), Origin::kTemplate).text()->bytes);
}

}  // namespace

Value format_braces(Machine& machine, const TextData& text, const Arguments& given) {
  TextBuilder out(machine.steps());
  std::size_t next = 0;
  const std::string_view bytes = text.bytes;
  machine.steps().look_closely(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.append(text, at, brace - at);
    if ((at = brace) == bytes.size()) break;
    if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
      out.append(text, at++, 1);
      continue;
    }
    const std::size_t end = bytes.find('}', at);
    if (bytes[at] == '}' || end == std::string_view::npos) fail("a single brace in a format");
    std::string_view field = bytes.substr(at + 1, end - at - 1);
    const std::size_t colon = field.find(':');
    const std::string_view spec =
        colon == std::string_view::npos ? std::string_view() : field.substr(colon + 1);
    field = field.substr(0, std::min(colon, field.size()));
    const bool as_repr = field.ends_with("!r");
    if (as_repr || field.ends_with("!s")) field.remove_suffix(2);
    const Value value = field_value(machine, field, next, given);
    if (as_repr) {
      append_repr(value, out);
    } else {
      append_formatted(machine, value, spec, out);
    }
    at = end;
  }
  return machine.arena().text(out.take());
}

Value format_percent(Machine& machine, const TextData& text, const Value& arguments) {
  const bool is_tuple = arguments.list() != nullptr && arguments.list()->is_tuple;
  const std::span<const Value> given =
      is_tuple ? std::span<const Value>(arguments.list()->items) : std::span(&arguments, 1);
  std::size_t next = 0;
  TextBuilder out(machine.steps());
  machine.steps().look_closely(text.bytes.size());
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    const std::size_t sign = std::min(text.bytes.find('%', at), text.bytes.size());
    out.append(text, at, sign - at);
    if ((at = sign) == text.bytes.size()) break;
    const std::size_t end = text.bytes.find_first_of("sdifeEgGxXor%", at + 1);
    if (end == std::string::npos) fail("incomplete format");
    std::string spec = text.bytes.substr(at + 1, end - at);
    at = end;
    if (spec == "%") {
      out.append("%", Origin::kTemplate);
      continue;
    }
    Value value;
    if (spec.starts_with('(') && arguments.dict() != nullptr &&
        spec.find(')') != std::string::npos) {
      value = machine.item(
          arguments, machine.arena().text(spec.substr(1, spec.find(')') - 1), Origin::kTemplate));
      spec = spec.substr(spec.find(')') + 1);
      next = given.size();
    } else {
      if (next == given.size()) fail("not enough arguments for format string");
      value = given[next++];
    }
    if (spec == "s") {
      append_string(value, out);
    } else if (spec == "r") {
      append_repr(value, out);
    } else {
      if (spec.back() == 'i') spec.back() = 'd';
      if (spec.back() == 'd' && std::holds_alternative<double>(value.held)) {
        if (!(std::abs(value.real()) < 9e18)) fail("a number is out of range");
        value = {static_cast<std::int64_t>(value.real())};
      }
      if (spec.back() == 'f' && spec.find('.') == std::string::npos)
        spec.insert(spec.size() - 1, ".6");
      out.append(formatted_number(value, spec), Origin::kTemplate);
    }
  }
  if (next < given.size() && (is_tuple || arguments.dict() == nullptr))
    fail("not all arguments converted during string formatting");
  return machine.arena().text(out.take());
}

}  // namespace outrider::jinja

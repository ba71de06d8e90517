// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace outrider::jinja {
namespace {

constexpr std::string_view kSpacesOfThreeBytes[] = {
    "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
    "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
constexpr int kMaxNesting = 100;  // nested lists and dictionaries

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

void append_items(const std::vector<Value>& items, TextBuilder& out, int depth);

// Escapes like Python's repr; bytes from 0x80 on are treated as printable characters.
void append_quoted(const TextData& text, TextBuilder& out) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const bool has_double = text.bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const Origin origin = origin_of(text);
  out.append(std::string_view(&quote, 1), Origin::kTemplate);
  const auto is_plain = [quote](char byte) {
    return static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f && byte != '\\' &&
           byte != quote;
  };
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    const std::size_t first = i;
    while (i < text.bytes.size() && is_plain(text.bytes[i])) ++i;
    out.append(text, first, i - first);
    if (i == text.bytes.size()) break;
    const char byte = text.bytes[i];
    if (byte == '\n') {
      out.append("\\n", origin);
    } else if (byte == '\r') {
      out.append("\\r", origin);
    } else if (byte == '\t') {
      out.append("\\t", origin);
    } else if (byte == '\\' || byte == quote) {
      out.append("\\", origin);
      out.append(text, i, 1);
    } else {
      out.append(fmt::format("\\x{:02x}", byte), origin);
    }
  }
  out.append(std::string_view(&quote, 1), Origin::kTemplate);
}

void append_repr_at(const Value& value, TextBuilder& out, int depth) {
  if (depth > kMaxNesting) fail("a value contains itself, or is nested too deeply");
  const auto write = [&](std::string_view text) { out.append(text, Origin::kTemplate); };
  if (const TextData* text = value.text()) {
    append_quoted(*text, out);
  } else if (const List* list = value.list()) {
    write(list->is_tuple ? "(" : "[");
    append_items(list->items, out, depth + 1);
    if (list->is_tuple && list->items.size() == 1) write(",");
    write(list->is_tuple ? ")" : "]");
  } else if (const Dict* dict = value.dict()) {
    write(dict->is_namespace ? "<Namespace {" : "{");
    for (std::size_t i = 0; i < dict->entries.size(); ++i) {
      if (i > 0) write(", ");
      append_repr_at(dict->entries[i].first, out, depth + 1);
      write(": ");
      append_repr_at(dict->entries[i].second, out, depth + 1);
    }
    write(dict->is_namespace ? "}>" : "}");
  } else if (value.is_undefined()) {
    write("Undefined");
  } else {
    append_string(value, out);
  }
}

void append_items(const std::vector<Value>& items, TextBuilder& out, int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ", Origin::kTemplate);
    append_repr_at(items[i], out, depth);
  }
}

char32_t code_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = next_character(text, at) - at;
  char32_t code = length == 1 ? lead : lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fu);
  }
  return code;
}

void append_json_string(const TextData& text, bool ascii, TextBuilder& out) {
  const Origin origin = origin_of(text);
  out.append("\"", Origin::kTemplate);
  for (std::size_t i = 0; i < text.bytes.size(); i = next_character(text.bytes, i)) {
    const auto byte = static_cast<unsigned char>(text.bytes[i]);
    static constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kEscaped = "\"\\nrtbf";
    if (const auto at = kPlain.find(text.bytes[i]); at != std::string_view::npos) {
      out.append("\\", origin);
      out.append(kEscaped.substr(at, 1), origin);
    } else if (byte < 0x20 || (ascii && byte == 0x7f)) {
      out.append(byte == 0x7f ? "\x7f" : fmt::format("\\u{:04x}", byte), origin);
    } else if (ascii && byte >= 0x80) {
      const char32_t code = code_at(text.bytes, i);
      if (code < 0x10000) {
        out.append(fmt::format("\\u{:04x}", static_cast<unsigned>(code)), origin);
      } else {
        const auto above = static_cast<unsigned>(code - 0x10000);
        out.append(
            fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff)),
            origin);
      }
    } else {
      out.append(text, i, next_character(text.bytes, i) - i);
    }
  }
  out.append("\"", Origin::kTemplate);
}

// A dictionary's key as a JSON string.
void append_json_key(const Value& key, bool ascii, TextBuilder& out) {
  if (const TextData* text = key.text()) {
    append_json_string(*text, ascii, out);
  } else if (key.is_number() || key.is_none()) {
    out.append("\"", Origin::kTemplate);
    append_json(key, {}, out);
    out.append("\"", Origin::kTemplate);
  } else {
    fail(fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name()));
  }
}

void append_line(const JsonStyle& style, int depth, TextBuilder& out) {
  if (style.indent < 0) return;
  out.append("\n" + std::string(static_cast<std::size_t>(style.indent * depth), ' '),
             Origin::kTemplate);
}

}  // namespace

void fail(std::string message) {
  throw Failure{invalid_argument(std::move(message))};
}

void require_defined(const Value& value) {
  if (value.is_undefined())
    fail(fmt::format("'{}' is undefined", std::get<Undefined>(value.held).name));
}

bool Value::is_integer() const {
  return std::holds_alternative<std::int64_t>(held) || std::holds_alternative<bool>(held);
}

bool Value::is_number() const {
  return is_integer() || std::holds_alternative<double>(held);
}

std::int64_t Value::integer() const {
  if (const bool* flag = std::get_if<bool>(&held)) return *flag ? 1 : 0;
  return std::get<std::int64_t>(held);
}

double Value::real() const {
  if (const double* number = std::get_if<double>(&held)) return *number;
  return static_cast<double>(integer());
}

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {
      "Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict", "function", "loop"};
  if (list() != nullptr && list()->is_tuple) return "tuple";
  if (list() != nullptr && list()->is_generator) return "generator";
  return kNames[held.index()];
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [own, value] : entries) {
    if (own.text() != nullptr && own.text()->bytes == key) return &value;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.text() != nullptr) return find(key.text()->bytes);
  for (const auto& [own, value] : entries) {
    const bool is_same = key.is_number() ? own.is_number() && own.real() == key.real()
                                         : key.is_none() && own.is_none();
    if (is_same) return &value;
  }
  return nullptr;
}

void TextBuilder::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  if (bytes.size() > kMaxTextBytes - data_.bytes.size() || ++pieces_ > kMaxTextPieces) {
    const std::string most = std::to_string(kMaxTextBytes) + " bytes or " +
                             std::to_string(kMaxTextPieces) + " pieces. Remedy: a shorter prompt";
    throw Failure{resource_exhausted("the chat template writes more than " + most)};
  }
  if (data_.bytes.empty()) data_.origin = origin;
  if (data_.origins.empty() && origin != data_.origin) {
    data_.origins.assign(data_.bytes.size(), static_cast<char>(data_.origin));
  }
  if (!data_.origins.empty()) data_.origins.append(bytes.size(), static_cast<char>(origin));
  data_.bytes.append(bytes);
}

void TextBuilder::append(const TextData& text) {
  append(text, 0, text.bytes.size());
}

void TextBuilder::append(const TextData& text, std::size_t begin, std::size_t length) {
  const std::string_view bytes = std::string_view(text.bytes).substr(begin, length);
  if (text.origins.empty()) {
    append(bytes, text.origin);
    return;
  }
  for (std::size_t from = 0; from < bytes.size();) {
    std::size_t to = from + 1;
    while (to < bytes.size() && text.origins[begin + to] == text.origins[begin + from]) ++to;
    append(bytes.substr(from, to - from), static_cast<Origin>(text.origins[begin + from]));
    from = to;
  }
}

TextData TextBuilder::take() {
  return std::exchange(data_, {});
}

Origin origin_of(const TextData& text) {
  return text.origins.find(static_cast<char>(Origin::kUser)) != std::string::npos ? Origin::kUser
                                                                                  : text.origin;
}

void Arena::charge(std::size_t bytes) {
  if (bytes > left_) {
    throw Failure{resource_exhausted("the chat template needs more memory than a prompt may take")};
  }
  left_ -= bytes;
}

Value Arena::text(TextData text) {
  charge(sizeof(TextData) + text.bytes.size() + text.origins.size());
  return {&texts_.emplace_back(std::move(text))};
}

Value Arena::text(std::string bytes, Origin origin) {
  return text(TextData{std::move(bytes), {}, origin, false});
}

Value Arena::slice(const TextData& whole, std::size_t begin, std::size_t length) {
  TextBuilder builder;
  builder.append(whole, begin, length);
  TextData part = builder.take();
  part.is_markup = whole.is_markup;
  return text(std::move(part));
}

Value Arena::list(std::vector<Value> items, bool is_tuple, bool is_generator) {
  charge(sizeof(List) + items.size() * sizeof(Value));
  return {&lists_.emplace_back(List{std::move(items), is_tuple, is_generator})};
}

Dict* Arena::dict(bool is_namespace) {
  charge(sizeof(Dict));
  Dict& made = dicts_.emplace_back();
  made.is_namespace = is_namespace;
  return &made;
}

Value Arena::loop(Loop loop) {
  charge(sizeof(Loop) + loop.items.size() * sizeof(Value));
  return {&loops_.emplace_back(std::move(loop))};
}

Value Arena::function(std::string name, std::function<Value(Machine&, const Arguments&)> call) {
  charge(sizeof(Function));
  return {&functions_.emplace_back(Function{std::move(name), std::move(call)})};
}

void Arena::set(Dict& dict, const Value& key, const Value& value) {
  if (key.list() != nullptr || key.dict() != nullptr) {
    fail(fmt::format("unhashable type: '{}'", key.type_name()));
  }
  if (const Value* found = dict.find(key)) {
    *const_cast<Value*>(found) = value;
    return;
  }
  charge(2 * sizeof(Value));
  dict.entries.emplace_back(key, value);
}

Value Arena::from_json(const nlohmann::ordered_json& json, Origin origin) {
  if (json.is_null()) return {None{}};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)
    return {json.get<double>()};
  if (json.is_number_integer()) return {json.get<std::int64_t>()};
  if (json.is_number_float()) return {json.get<double>()};
  if (json.is_string()) return text(json.get<std::string>(), origin);
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const auto& each : json) items.push_back(from_json(each, origin));
    return list(std::move(items));
  }
  Dict* made = dict();
  for (const auto& [key, value] : json.items()) {
    charge(2 * sizeof(Value));  // an object's keys are unique, so there is no look-up
    made->entries.emplace_back(text(key, origin), from_json(value, origin));
  }
  return {made};
}

bool is_true(const Value& value) {
  return std::visit(
      Overloaded{[](Undefined) { return false; }, [](None) { return false; },
                 [](bool flag) { return flag; }, [](std::int64_t number) { return number != 0; },
                 [](double number) { return number != 0; },
                 [](const TextData* text) { return !text->bytes.empty(); },
                 [](const List* list) { return list->is_generator || !list->items.empty(); },
                 [](const Dict* dict) { return dict->is_namespace || !dict->entries.empty(); },
                 [](const Function*) { return true; },
                 [](const Loop* loop) { return !loop->items.empty(); }},
      value.held);
}

void Steps::take(std::size_t count) {
  left -= static_cast<std::int64_t>(count);
  if (left < 0) throw Failure{resource_exhausted("the chat template takes too many steps")};
}

bool are_equal(const Value& a, const Value& b, Steps& steps) {
  steps.take(1);
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.held.index() != b.held.index()) return false;
  if (const TextData* text = a.text()) {
    if (text->bytes.size() == b.text()->bytes.size()) steps.take(text->bytes.size() / 64);
    return text->bytes == b.text()->bytes;
  }
  if (const List* list = a.list()) {
    return list->is_tuple == b.list()->is_tuple &&
           std::ranges::equal(list->items, b.list()->items,
                              [&](const Value& left, const Value& right) {
                                return are_equal(left, right, steps);
                              });
  }
  if (const Dict* dict = a.dict()) {
    if (dict->is_namespace || b.dict()->is_namespace) return dict == b.dict();
    return dict->entries.size() == b.dict()->entries.size() &&
           std::ranges::all_of(dict->entries, [&](const auto& entry) {
             steps.take(1 + b.dict()->entries.size() / 4);
             const Value* other = b.dict()->find(entry.first);
             return other != nullptr && are_equal(entry.second, *other, steps);
           });
  }
  if (a.function() != nullptr) return a.function() == b.function();
  if (a.loop() != nullptr) return a.loop() == b.loop();
  return true;  // undefined and undefined, none and none
}

int compare(const Value& a, const Value& b, Steps& steps) {
  steps.take(1);
  if (a.is_integer() && b.is_integer()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  if (a.is_number() && b.is_number()) return a.real() < b.real() ? -1 : a.real() > b.real() ? 1 : 0;
  if (a.text() != nullptr && b.text() != nullptr) {
    steps.take(std::min(a.text()->bytes.size(), b.text()->bytes.size()) / 64);
    return a.text()->bytes.compare(b.text()->bytes);
  }
  if (a.list() != nullptr && b.list() != nullptr) {
    const auto& left = a.list()->items;
    const auto& right = b.list()->items;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!are_equal(left[i], right[i], steps)) return compare(left[i], right[i], steps);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  fail(fmt::format("'<' is not supported between instances of '{}' and '{}'", a.type_name(),
                   b.type_name()));
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[40];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  const std::string_view text(digits, static_cast<std::size_t>(end.ptr - digits));
  const int exponent = std::stoi(std::string(text.substr(text.find('e') + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto plain = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed);
  std::string fixed(digits, plain.ptr);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

void append_string(const Value& value, TextBuilder& out) {
  const auto write = [&](std::string_view text) { out.append(text, Origin::kTemplate); };
  std::visit(
      Overloaded{[&](Undefined) {}, [&](None) { write("None"); },
                 [&](bool flag) { write(flag ? "True" : "False"); },
                 [&](std::int64_t number) { write(std::to_string(number)); },
                 [&](double number) { write(real_text(number)); },
                 [&](const TextData* text) { out.append(*text); },
                 [&](const List*) { append_repr(value, out); },
                 [&](const Dict*) { append_repr(value, out); },
                 [&](const Function* function) { write("<function " + function->name + ">"); },
                 [&](const Loop*) { write("<LoopContext>"); }},
      value.held);
}

void append_repr(const Value& value, TextBuilder& out) {
  append_repr_at(value, out, 0);
}

void append_json(const Value& value, const JsonStyle& style, TextBuilder& out, int depth) {
  if (depth > kMaxNesting) fail("Circular reference detected");
  const auto write = [&](std::string_view text) { out.append(text, Origin::kTemplate); };
  if (const TextData* text = value.text()) {
    append_json_string(*text, style.ascii, out);
  } else if (const List* list = value.list(); list != nullptr && !list->is_generator) {
    write("[");
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) write(style.item_separator);
      append_line(style, depth + 1, out);
      append_json(list->items[i], style, out, depth + 1);
    }
    if (!list->items.empty()) append_line(style, depth, out);
    write("]");
  } else if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    std::vector<std::pair<Value, Value>> entries = dict->entries;
    if (style.sort_keys) {
      Steps steps{std::ssize(entries) * 64};
      std::ranges::stable_sort(entries, [&](const auto& a, const auto& b) {
        return compare(a.first, b.first, steps) < 0;
      });
    }
    write("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) write(style.item_separator);
      append_line(style, depth + 1, out);
      append_json_key(entries[i].first, style.ascii, out);
      write(style.key_separator);
      append_json(entries[i].second, style, out, depth + 1);
    }
    if (!entries.empty()) append_line(style, depth, out);
    write("}");
  } else if (value.is_none()) {
    write("null");
  } else if (const bool* flag = std::get_if<bool>(&value.held)) {
    write(*flag ? "true" : "false");
  } else if (const double* number = std::get_if<double>(&value.held)) {
    write(std::isnan(*number)   ? "NaN"
          : std::isinf(*number) ? (*number > 0 ? "Infinity" : "-Infinity")
                                : real_text(*number));
  } else if (value.is_integer()) {
    append_string(value, out);
  } else {
    fail(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
  }
}

std::size_t next_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

std::size_t space_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == ' ' || (byte >= 9 && byte <= 13) || (byte >= 0x1c && byte <= 0x1f)) return 1;
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("\u0085") || rest.starts_with("\u00a0")) return 2;
  return std::ranges::any_of(kSpacesOfThreeBytes,
                             [&](std::string_view space) { return rest.starts_with(space); })
             ? 3
             : 0;
}

}  // namespace outrider::jinja

// Values as texts: str(), repr() and json.dumps() of Python.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/serving/conversation/jinja/value.h"

namespace outrider::jinja {
namespace {

constexpr int kMaxNesting = 100;  // nested lists and dictionaries

void append_items(const std::vector<Value>& items, TextBuilder& out, int depth);

// Escapes like Python's repr; bytes from 0x80 on are treated as printable characters.
void append_quoted(const TextData& text, TextBuilder& out) {
  out.steps().look_closely(text.bytes.size());
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

// A character as JSON writes it; nothing: as it is.
std::string json_escape(std::string_view text, std::size_t at, bool ascii) {
  static constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kEscaped = "\"\\nrtbf";
  const auto byte = static_cast<unsigned char>(text[at]);
  if (const auto i = kPlain.find(text[at]); i != std::string_view::npos) return {'\\', kEscaped[i]};
  if (byte < 0x20) return fmt::format("\\u{:04x}", byte);
  if (!ascii || byte < 0x80) return {};
  const char32_t code = code_at(text, at);
  if (code < 0x10000) return fmt::format("\\u{:04x}", static_cast<unsigned>(code));
  const auto above = static_cast<unsigned>(code - 0x10000);
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff));
}

void append_json_string(const TextData& text, bool ascii, TextBuilder& out) {
  const Origin origin = origin_of(text);
  out.append("\"", Origin::kTemplate);
  std::size_t plain = 0;  // the start of what is written as it is
  for (std::size_t i = 0; i < text.bytes.size();) {
    const std::size_t next = next_character(text.bytes, i);
    out.steps().look_closely(next - i);
    if (const std::string escape = json_escape(text.bytes, i, ascii); !escape.empty()) {
      out.append(text, plain, i - plain);
      out.append(escape, origin);
      plain = next;
    }
    i = next;
  }
  out.append(text, plain, text.bytes.size() - plain);
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
  out.append("\n", Origin::kTemplate);
  out.append(" ", Origin::kTemplate, std::int64_t{style.indent} * depth);
}

}  // namespace

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
  if (const TextData* text = value.text()) {
    out.append(*text);
  } else if (value.list() != nullptr || value.dict() != nullptr) {
    append_repr(value, out);
  } else if (value.is_none()) {
    write("None");
  } else if (const bool* flag = std::get_if<bool>(&value.held)) {
    write(*flag ? "True" : "False");
  } else if (value.is_integer()) {
    write(std::to_string(value.integer()));
  } else if (value.is_number()) {
    write(real_text(value.real()));
  } else if (const Function* function = value.function()) {
    write("<function " + function->name + ">");
  } else if (value.loop() != nullptr) {
    write("<LoopContext>");
  }
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
    out.steps().look(dict->entries.size() * sizeof(dict->entries[0]));
    std::vector<std::pair<Value, Value>> entries = dict->entries;
    if (style.sort_keys) {
      std::ranges::stable_sort(entries, [&](const auto& a, const auto& b) {
        return compare(a.first, b.first, out.steps()) < 0;
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

}  // namespace outrider::jinja

// Python's string operations that several methods and filters share, and arguments of calls.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>

#include "common/conversation/jinja/machine.h"

namespace outrider::jinja {

Value padded(Machine& machine, const TextData& text, const Value& width,
             const std::optional<Value>& fill, int side) {
  const std::string by = fill ? text_argument(*fill, "ljust").bytes : " ";
  if (count_characters(by) != 1) fail("the fill character must be exactly one character long");
  const std::int64_t wanted = integer_argument(width, "ljust");
  const std::int64_t lacking =
      std::max<std::int64_t>(wanted - static_cast<std::int64_t>(count_characters(text.bytes)), 0);
  if (lacking > static_cast<std::int64_t>(kMaxTextBytes)) fail("the width is out of range");
  const std::int64_t left = side < 0   ? 0
                            : side > 0 ? lacking
                                       : lacking / 2 + (lacking & wanted & 1);
  TextBuilder out;
  for (std::int64_t i = 0; i < left; ++i) out.append(by, Origin::kTemplate);
  out.append(text);
  for (std::int64_t i = left; i < lacking; ++i) out.append(by, Origin::kTemplate);
  machine.steps().take(static_cast<std::size_t>(lacking) / 16);
  return machine.arena().text(out.take());
}

TextData stripped(const TextData& text, std::optional<std::string_view> characters, bool left,
                  bool right) {
  const auto taken_at = [&](std::size_t at) {
    if (!characters) return space_at(text.bytes, at);
    const std::size_t length = next_character(text.bytes, at) - at;
    return characters->find(std::string_view(text.bytes).substr(at, length)) !=
                   std::string_view::npos
               ? length
               : 0;
  };
  std::size_t begin = 0;
  while (left && begin < text.bytes.size() && taken_at(begin) > 0) begin += taken_at(begin);
  std::size_t end = right ? begin : text.bytes.size();
  for (std::size_t at = begin; right && at < text.bytes.size();) {
    const std::size_t taken = taken_at(at);
    at = taken > 0 ? at + taken : next_character(text.bytes, at);
    if (taken == 0) end = at;
  }
  TextBuilder out;
  out.append(text, begin, end - begin);
  TextData made = out.take();
  made.is_markup = text.is_markup;
  return made;
}

TextData replaced(const TextData& text, std::string_view old, const TextData& by,
                  std::int64_t count) {
  TextBuilder out;
  std::size_t at = 0;
  for (; count != 0 && at <= text.bytes.size(); --count) {
    const std::size_t found = text.bytes.find(old, at);
    if (found == std::string::npos) break;
    out.append(text, at, found - at);
    out.append(by);
    at = found + old.size();
    if (old.empty()) {
      if (at == text.bytes.size()) break;
      const std::size_t next = next_character(text.bytes, at);
      out.append(text, at, next - at);
      at = next;
    }
  }
  if (at < text.bytes.size()) out.append(text, at, text.bytes.size() - at);
  TextData made = out.take();
  made.is_markup = text.is_markup;
  return made;
}

TextData with_case(const TextData& text, bool upper) {
  const bool is_ascii =
      std::ranges::all_of(text.bytes, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  TextData made = text;
  if (is_ascii) {
    for (char& c : made.bytes) {
      if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
    }
    return made;
  }
  icu::UnicodeString wide = icu::UnicodeString::fromUTF8(text.bytes);
  if (upper) {
    wide.toUpper(icu::Locale::getRoot());
  } else {
    wide.toLower(icu::Locale::getRoot());
  }
  made.bytes.clear();
  wide.toUTF8String(made.bytes);
  made.origin = origin_of(text);  // bytes no longer correspond one to one
  made.origins.clear();
  return made;
}

TextData escaped(const TextData& text) {
  TextBuilder out;
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    static constexpr std::array<std::pair<char, std::string_view>, 5> kNames{
        {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}}};
    const auto* found =
        std::ranges::find(kNames, text.bytes[at], &std::pair<char, std::string_view>::first);
    if (found == kNames.end()) {
      out.append(text, at, 1);
    } else {
      out.append(found->second, origin_of(text));
    }
  }
  TextData made = out.take();
  made.is_markup = true;
  return made;
}

Bound bind(const Arguments& arguments, std::string_view function,
           std::initializer_list<std::string_view> parameters) {
  Bound bound(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    fail(fmt::format("{}() takes at most {} arguments, {} given", function, parameters.size(),
                     arguments.positional.size()));
  }
  std::ranges::copy(arguments.positional, bound.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto* found = std::ranges::find(parameters, name);
    if (found == parameters.end())
      fail(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    std::optional<Value>& slot = bound[static_cast<std::size_t>(found - parameters.begin())];
    if (slot) fail(fmt::format("{}() got multiple values for argument '{}'", function, name));
    slot = value;
  }
  return bound;
}

bool is_set(const std::optional<Value>& value) {
  return value && is_true(*value);
}

const TextData& text_argument(const Value& value, std::string_view function) {
  if (value.is_undefined())
    fail(fmt::format("'{}' is undefined", std::get<Undefined>(value.held).name));
  if (value.text() == nullptr)
    fail(fmt::format("{}() takes a str, not {}", function, value.type_name()));
  return *value.text();
}

const TextData& text_argument(const std::optional<Value>& value, std::string_view function) {
  if (!value) fail(fmt::format("{}() lacks an argument", function));
  return text_argument(*value, function);
}

std::int64_t integer_argument(const Value& value, std::string_view function) {
  if (!value.is_integer())
    fail(fmt::format("{}() takes an int, not {}", function, value.type_name()));
  return value.integer();
}

}  // namespace outrider::jinja

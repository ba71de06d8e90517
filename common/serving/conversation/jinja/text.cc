// Python's string operations that several methods and filters share, and arguments of calls.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>
#include <unordered_set>

#include "common/serving/conversation/jinja/machine.h"

namespace outrider::jinja {

Value padded(Machine& machine, const TextData& text, const Value& width,
             const std::optional<Value>& fill, int side) {
  const std::string by = fill ? text_argument(*fill, "ljust").bytes : " ";
  if (count_characters(by, machine.steps()) != 1)
    fail("the fill character must be exactly one character long");
  const std::int64_t wanted = std::max<std::int64_t>(integer_argument(width, "ljust"), 0);
  const std::int64_t lacking = std::max<std::int64_t>(
      wanted - static_cast<std::int64_t>(count_characters(text.bytes, machine.steps())), 0);
  if (lacking > static_cast<std::int64_t>(kMaxTextBytes)) fail("the width is out of range");
  const std::int64_t left = side < 0   ? 0
                            : side > 0 ? lacking
                                       : lacking / 2 + (lacking & wanted & 1);
  TextBuilder out(machine.steps());
  out.append(by, Origin::kTemplate, left);
  out.append(text);
  out.append(by, Origin::kTemplate, lacking - left);
  return machine.arena().text(out.take());
}

namespace {

// Characters of a text, for a quick look-up.
class CharacterSet final {
 public:
  CharacterSet(std::string_view characters, Steps& steps) {
    for (std::size_t at = 0; at < characters.size();) {
      const std::size_t next = next_character(characters, at);
      if (next == at + 1) {
        steps.look_closely(1);
        single_[static_cast<unsigned char>(characters[at])] = true;
      } else {
        steps.take(2);
        longer_.insert(characters.substr(at, next - at));
      }
      at = next;
    }
  }
  bool contains(std::string_view character) const {
    return character.size() == 1 ? single_[static_cast<unsigned char>(character[0])]
                                 : longer_.contains(character);
  }

 private:
  std::bitset<256> single_;
  std::unordered_set<std::string_view> longer_;
};

// Where `wanted` begins in `text` from `at` on; npos: nowhere. Looks at a part at a time, so that a
// deadline ends it in between.
std::size_t find_from(std::string_view text, std::string_view wanted, std::size_t at,
                      Steps& steps) {
  const std::size_t part = std::max(std::size_t{1} << 16, wanted.size());
  for (; at + wanted.size() <= text.size(); at += part) {
    const std::string_view here = text.substr(at, part + wanted.size() - 1);
    const auto* found =
        static_cast<const char*>(::memmem(here.data(), here.size(), wanted.data(), wanted.size()));
    const auto length =
        found != nullptr ? static_cast<std::size_t>(found - here.data()) : here.size();
    // Repeated beginnings of what is searched cost a search several looks at each byte.
    if (wanted.size() == 1) {
      steps.look(length + 1);
    } else {
      steps.look_closely(length + wanted.size());
    }
    if (found != nullptr) return at + length;
  }
  return std::string_view::npos;
}

// The start of the character that ends at `end`, which is not 0.
std::size_t last_character(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

TextData with_text(std::string bytes, const TextData& from) {
  return {std::move(bytes), {}, origin_of(from), from.is_markup};
}

}  // namespace

void each_match(std::string_view text, std::string_view wanted, bool from_right, Steps& steps,
                const std::function<bool(std::size_t)>& visit) {
  if (from_right) {  // from the left, in both backwards
    steps.look(text.size() + wanted.size());
    const std::string turned(text.rbegin(), text.rend());
    const std::string wanted_turned(wanted.rbegin(), wanted.rend());
    each_match(turned, wanted_turned, false, steps,
               [&](std::size_t start) { return visit(text.size() - start - wanted.size()); });
    return;
  }
  for (std::size_t at = 0; (at = find_from(text, wanted, at, steps)) != std::string_view::npos;
       at += wanted.size()) {
    steps.look(32);
    if (!visit(at)) return;
  }
}

std::size_t find_match(std::string_view text, std::string_view wanted, bool from_right,
                       Steps& steps) {
  if (wanted.empty()) return from_right ? text.size() : 0;
  std::size_t found = std::string_view::npos;
  each_match(text, wanted, from_right, steps, [&](std::size_t start) {
    found = start;
    return false;
  });
  return found;
}

TextData stripped(const TextData& text, std::optional<std::string_view> characters, bool left,
                  bool right, Steps& steps) {
  const CharacterSet set(characters.value_or(""), steps);
  const std::string_view bytes = text.bytes;
  // The length of a character at this place that is removed, or 0.
  const auto taken_at = [&](std::size_t at) {
    steps.look_closely(1);
    if (!characters) return space_at(bytes, at);
    const std::string_view character = bytes.substr(at, next_character(bytes, at) - at);
    return set.contains(character) ? character.size() : 0;
  };
  std::size_t begin = 0;
  for (std::size_t taken = 1; left && begin < bytes.size() && taken > 0; begin += taken)
    taken = taken_at(begin);
  std::size_t end = bytes.size();
  while (right && end > begin) {
    const std::size_t last = last_character(bytes, end);
    if (taken_at(last) == 0) break;
    end = last;
  }
  TextBuilder out(steps);
  out.append(text, begin, end - begin);
  TextData made = out.take();
  made.is_markup = text.is_markup;
  return made;
}

TextData replaced(const TextData& text, std::string_view old, const TextData& by,
                  std::int64_t count, Steps& steps) {
  count = std::max<std::int64_t>(count, -1);  // -1: all of them
  TextBuilder out(steps);
  std::size_t at = 0;  // what is before it is written
  if (old.empty()) {
    for (; count != 0 && at <= text.bytes.size(); --count) {
      out.append(by);
      if (at == text.bytes.size()) break;
      const std::size_t next = next_character(text.bytes, at);
      out.append(text, at, next - at);
      at = next;
    }
  } else if (count != 0) {
    each_match(text.bytes, old, false, steps, [&](std::size_t found) {
      out.append(text, at, found - at);
      out.append(by);
      at = found + old.size();
      return --count != 0;
    });
  }
  out.append(text, at, text.bytes.size() - at);
  TextData made = out.take();
  made.is_markup = text.is_markup;
  return made;
}

TextData with_case(const TextData& text, bool upper, Steps& steps) {
  steps.look_closely(text.bytes.size());
  const bool is_ascii =
      std::ranges::all_of(text.bytes, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (is_ascii) {
    TextData made = text;
    for (char& c : made.bytes) {
      if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
    }
    return made;
  }
  steps.look(text.bytes.size() * 12);
  icu::UnicodeString wide = icu::UnicodeString::fromUTF8(text.bytes);
  if (upper) {
    wide.toUpper(icu::Locale::getRoot());
  } else {
    wide.toLower(icu::Locale::getRoot());
  }
  std::string bytes;
  wide.toUTF8String(bytes);
  return with_text(std::move(bytes), text);  // they no longer correspond one to one
}

TextData escaped(const TextData& text, Steps& steps) {
  static constexpr std::array<std::pair<char, std::string_view>, 5> kNames{
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}}};
  TextBuilder out(steps);
  const Origin origin = origin_of(text);
  std::size_t plain = 0;  // the start of what is written as it is
  steps.look_closely(text.bytes.size());
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    const auto* found =
        std::ranges::find(kNames, text.bytes[at], &std::pair<char, std::string_view>::first);
    if (found == kNames.end()) continue;
    out.append(text, plain, at - plain);
    out.append(found->second, origin);
    plain = at + 1;
  }
  out.append(text, plain, text.bytes.size() - plain);
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

// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <type_traits>

namespace outrider::jinja {
namespace {

constexpr std::string_view kSpacesOfThreeBytes[] = {
    "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
    "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

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

namespace {

constexpr std::size_t kSmallDict = 16;  // entries that are looked through

std::size_t hash_of_text(std::string_view text, Steps& steps) {
  steps.look(text.size());
  return std::hash<std::string_view>()(text);
}

// The value of the entry for which is_same(key) holds.
template <typename IsSame>
const Value* find_entry(const Dict& dict, std::size_t hash, Steps& steps, const IsSame& is_same) {
  const auto matches = [&](std::size_t place) {
    steps.look(16);
    return is_same(dict.entries[place].first) ? &dict.entries[place].second : nullptr;
  };
  if (dict.places.empty()) {
    for (std::size_t i = 0; i < dict.entries.size(); ++i) {
      if (const Value* found = matches(i)) return found;
    }
    return nullptr;
  }
  const auto [begin, end] = dict.places.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (const Value* found = matches(at->second)) return found;
  }
  return nullptr;
}

}  // namespace

const Value* Dict::find(std::string_view key, Steps& steps) const {
  return find_entry(*this, hash_of_text(key, steps), steps, [&](const Value& own) {
    if (own.text() == nullptr || own.text()->bytes.size() != key.size()) return false;
    steps.look(key.size());
    return own.text()->bytes == key;
  });
}

const Value* Dict::find(const Value& key, Steps& steps) const {
  if (key.text() != nullptr) return find(key.text()->bytes, steps);
  if (!key.is_number() && !key.is_none()) return nullptr;
  return find_entry(*this, hash_of(key, steps), steps, [&](const Value& own) {
    return key.is_number() ? own.is_number() && own.real() == key.real() : own.is_none();
  });
}

void TextBuilder::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  steps_.look(bytes.size() + 16);
  if (bytes.size() > kMaxTextBytes - data_.bytes.size() || ++pieces_ > kMaxTextPieces) {
    const std::string most =
        std::to_string(kMaxTextBytes) + " bytes or " + std::to_string(kMaxTextPieces) + " pieces";
    throw Failure{resource_exhausted("the chat template writes more than " + most)};
  }
  if (data_.bytes.empty()) data_.origin = origin;
  if (data_.origins.empty() && origin != data_.origin) {
    data_.origins.assign(data_.bytes.size(), static_cast<char>(data_.origin));
  }
  if (!data_.origins.empty()) data_.origins.append(bytes.size(), static_cast<char>(origin));
  data_.bytes.append(bytes);
}

void TextBuilder::append(std::string_view bytes, Origin origin, std::int64_t times) {
  constexpr std::int64_t kAtOnce = 4096;
  std::string several;
  for (std::int64_t left = times; left > 0 && !bytes.empty();) {
    const std::int64_t most = 1 + kAtOnce / std::ssize(bytes);
    if (several.empty()) {
      for (std::int64_t i = std::min(left, most); i > 0; --i) several += bytes;
    }
    const std::int64_t count = std::min(left, std::ssize(several) / std::ssize(bytes));
    append(std::string_view(several).substr(0, static_cast<std::size_t>(count) * bytes.size()),
           origin);
    left -= count;
  }
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
  steps_.look(bytes);
}

Value Arena::text(TextData text) {
  charge(sizeof(TextData) + text.bytes.size() + text.origins.size());
  return {&texts_.emplace_back(std::move(text))};
}

Value Arena::text(std::string bytes, Origin origin) {
  return text(TextData{std::move(bytes), {}, origin, false});
}

Value Arena::slice(const TextData& whole, std::size_t begin, std::size_t length) {
  TextBuilder builder(steps_);
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
  charge(sizeof(Loop));
  return {&loops_.emplace_back(std::move(loop))};
}

Value Arena::function(std::string name, std::function<Value(Machine&, const Arguments&)> call) {
  charge(sizeof(Function) + name.size());
  return {&functions_.emplace_back(Function{std::move(name), std::move(call)})};
}

void Arena::set(Dict& dict, const Value& key, const Value& value) {
  if (key.list() != nullptr || key.dict() != nullptr) {
    fail(fmt::format("unhashable type: '{}'", key.type_name()));
  }
  if (const Value* found = dict.find(key, steps_)) {
    *const_cast<Value*>(found) = value;
    return;
  }
  add(dict, key, value);
}

void Arena::add(Dict& dict, const Value& key, const Value& value) {
  constexpr std::size_t kPlaceBytes = 48;
  charge(2 * sizeof(Value) + kPlaceBytes);
  dict.entries.emplace_back(key, value);
  const std::size_t count = dict.entries.size();
  if (count < kSmallDict) return;
  for (std::size_t i = count == kSmallDict ? 0 : count - 1; i < count; ++i)
    dict.places.emplace(hash_of(dict.entries[i].first, steps_), i);
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
    const Value name = text(key, origin);
    add(*made, name, from_json(value, origin));  // an object's keys are unique
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
                 [](const Loop* loop) { return !loop->items->empty(); }},
      value.held);
}

namespace {

bool are_equal(const List& a, const List& b, Steps& steps) {
  return a.is_tuple == b.is_tuple &&
         std::ranges::equal(a.items, b.items, [&](const Value& left, const Value& right) {
           return jinja::are_equal(left, right, steps);
         });
}

bool are_equal(const Dict& a, const Dict& b, Steps& steps) {
  if (a.is_namespace || b.is_namespace) return &a == &b;
  return a.entries.size() == b.entries.size() &&
         std::ranges::all_of(a.entries, [&](const auto& entry) {
           const Value* other = b.find(entry.first, steps);
           return other != nullptr && jinja::are_equal(entry.second, *other, steps);
         });
}

}  // namespace

bool are_equal(const Value& a, const Value& b, Steps& steps) {
  steps.take(1);
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.held.index() != b.held.index()) return false;
  if (const TextData* text = a.text()) {
    if (text->bytes.size() != b.text()->bytes.size()) return false;
    steps.look(text->bytes.size());
    return text->bytes == b.text()->bytes;
  }
  if (a.list() != nullptr || a.dict() != nullptr) {
    const Steps::Nested nested(steps);
    return a.list() != nullptr ? are_equal(*a.list(), *b.list(), steps)
                               : are_equal(*a.dict(), *b.dict(), steps);
  }
  if (a.function() != nullptr) return a.function() == b.function();
  if (a.loop() != nullptr) return a.loop() == b.loop();
  return true;  // undefined and undefined, none and none
}

std::size_t hash_of(const Value& value, Steps& steps) {
  steps.look(16);
  if (value.text() != nullptr) return hash_of_text(value.text()->bytes, steps);
  if (value.is_number()) return std::hash<double>()(value.real());
  if (value.list() != nullptr) return value.list()->items.size();
  if (value.dict() != nullptr) return value.dict()->entries.size();
  return value.held.index();
}

int compare(const Value& a, const Value& b, Steps& steps) {
  steps.take(1);
  if (a.is_integer() && b.is_integer()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  if (a.is_number() && b.is_number()) return a.real() < b.real() ? -1 : a.real() > b.real() ? 1 : 0;
  if (a.text() != nullptr && b.text() != nullptr) {
    steps.look(std::min(a.text()->bytes.size(), b.text()->bytes.size()));
    return a.text()->bytes.compare(b.text()->bytes);
  }
  if (a.list() != nullptr && b.list() != nullptr) {
    const Steps::Nested nested(steps);
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

std::size_t next_character(std::string_view text, std::size_t at) {
  const std::size_t longest = std::min(text.size(), at + 4);
  ++at;
  while (at < longest && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
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

std::size_t count_characters(std::string_view text, Steps& steps) {
  steps.look(text.size());
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

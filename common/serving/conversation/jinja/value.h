// The values of a template: those of Python's jinja2, in memory that is counted.
//
// Every byte of a text is marked as the template's or the user's. Slicing, joining and stripping
// keep the marks; a result computed from several bytes is the user's if one of them is. So a
// conversation can write neither the model's special tokens nor the end of its own turn.
//
// Ownership: an Arena owns the texts, lists and dictionaries of one rendering and frees them all at
// its end, including cycles; a Value only points to them. Thread rule: an arena belongs to one
// thread; the values of a parsed template are constant. Errors: a Failure is thrown, and caught at
// the border of the library (template.h). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/serving/conversation/jinja/steps.h"

namespace outrider::jinja {

struct Failure {
  Status status;
};
// The template's operation is not possible; the message is that of jinja2's exception.
[[noreturn]] void fail(std::string message);

enum class Origin : char { kTemplate, kUser };

struct TextData {
  std::string bytes;    // UTF-8
  std::string origins;  // of each byte, as chars; empty: all bytes have `origin`
  Origin origin = Origin::kTemplate;
  bool is_markup = false;  // made by the filter `safe`: `+` escapes what is joined to it
};

struct Value;
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_generator = false;  // the result of filters like map(): always true, without a length
};
struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in the order of insertion; Arena::add() adds
  bool is_namespace = false;
  std::unordered_multimap<std::size_t, std::size_t> places;  // of large ones: entries by hash
  const Value* find(std::string_view key, Steps& steps) const;
  // Nothing for a key that is not a text, number or none.
  const Value* find(const Value& key, Steps& steps) const;
};
class Machine;
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};
struct Function {
  std::string name;
  std::function<Value(Machine&, const Arguments&)> call;
};

// The variable `loop` of a for statement.
struct Loop {
  const std::vector<Value>* items = nullptr;
  std::size_t index = 0;
  int depth = 0;
  const Function* recurse = nullptr;  // loop(items), of a recursive loop
  std::vector<Value> last_changed;    // the arguments of the last loop.changed()
};

struct Undefined {
  std::string_view name;  // of the missing variable
};
struct None {};

struct Value {
  std::variant<Undefined, None, bool, std::int64_t, double, const TextData*, List*, Dict*,
               const Function*, Loop*>
      held;

  bool is_undefined() const { return std::holds_alternative<Undefined>(held); }
  bool is_none() const { return std::holds_alternative<None>(held); }
  const TextData* text() const { return get<const TextData*>(); }
  const List* list() const { return get<List*>(); }
  Dict* dict() const { return get<Dict*>(); }
  const Function* function() const { return get<const Function*>(); }
  Loop* loop() const { return get<Loop*>(); }
  bool is_number() const;              // also true and false
  bool is_integer() const;             // also true and false
  std::int64_t integer() const;        // of an integer, or of true and false
  double real() const;                 // of any number
  std::string_view type_name() const;  // Python's name

 private:
  template <typename T>
  T get() const {
    const T* found = std::get_if<T>(&held);
    return found != nullptr ? *found : nullptr;
  }
};

// Errors: a Failure if the value is undefined.
void require_defined(const Value& value);

// Builds a text. Errors: a Failure beyond kMaxTextBytes or kMaxTextPieces.
inline constexpr std::size_t kMaxTextBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxTextPieces = std::size_t{1} << 20;
class TextBuilder final {
 public:
  explicit TextBuilder(Steps& steps) : steps_(steps) {}

  void append(std::string_view bytes, Origin origin);
  void append(const TextData& text);
  // Bytes [begin, begin + length) of the text.
  void append(const TextData& text, std::size_t begin, std::size_t length);
  void append(std::string_view bytes, Origin origin, std::int64_t times);
  // Makes room for so many bytes more, so that appending them moves nothing.
  void expect(std::size_t bytes) {
    data_.bytes.reserve(std::min(kMaxTextBytes, data_.bytes.size() + bytes));
  }
  bool empty() const { return data_.bytes.empty(); }
  TextData take();
  Steps& steps() const { return steps_; }

 private:
  Steps& steps_;
  TextData data_;
  std::size_t pieces_ = 0;
};

// kUser if any byte is the user's. Looks at every byte.
Origin origin_of(const TextData& text);

class Arena final {
 public:
  // steps: of the parsing or rendering, which each byte of a value takes a part of.
  Arena(std::size_t max_bytes, Steps& steps) : left_(max_bytes), steps_(steps) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Value text(TextData text);
  Value text(std::string bytes, Origin origin);
  Value slice(const TextData& text, std::size_t begin, std::size_t length);
  Value list(std::vector<Value> items, bool is_tuple = false, bool is_generator = false);
  Dict* dict(bool is_namespace = false);
  Value function(std::string name, std::function<Value(Machine&, const Arguments&)> call);
  // Adds an entry whose key is new.
  void add(Dict& dict, const Value& key, const Value& value);
  // Adds or replaces.
  void set(Dict& dict, const Value& key, const Value& value);
  // Errors: a Failure if it exceeds a rendering's memory.
  void charge(std::size_t bytes);
  Steps& steps() { return steps_; }

  // Strings get that origin.
  Value from_json(const nlohmann::ordered_json& json, Origin origin);

  Value loop(Loop loop);

 private:
  std::size_t left_;
  Steps& steps_;
  std::deque<TextData> texts_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Function> functions_;
  std::deque<Loop> loops_;
};

bool is_true(const Value& value);
bool are_equal(const Value& a, const Value& b, Steps& steps);
// Values that are equal have the same hash.
std::size_t hash_of(const Value& value, Steps& steps);
// Negative, zero or positive, by Python's order. Errors: a Failure for types without an order.
int compare(const Value& a, const Value& b, Steps& steps);
// str(value) of Python.
void append_string(const Value& value, TextBuilder& out);
// repr(value) of Python.
void append_repr(const Value& value, TextBuilder& out);

struct JsonStyle {
  int indent = -1;  // none: on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ascii = false;
};
// json.dumps(value) of Python.
void append_json(const Value& value, const JsonStyle& style, TextBuilder& out, int depth = 0);

// The shortest digits that read back as the same number, in Python's form.
std::string real_text(double value);

// Characters of UTF-8: the start of the one after `at`, and their number.
std::size_t next_character(std::string_view text, std::size_t at);
std::size_t count_characters(std::string_view text, Steps& steps);
// The character at text[at].
char32_t code_at(std::string_view text, std::size_t at);
// The length of white space at text[at] by Python's str.strip(), or 0.
std::size_t space_at(std::string_view text, std::size_t at);

}  // namespace outrider::jinja

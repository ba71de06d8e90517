// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "common/base/json.h"
#include "common/serving/tools/call_readers.h"

namespace outrider {
namespace {

constexpr std::array kNameKeys = {"name", "tool_name"};
constexpr std::string_view kFence = "```json\n", kFenceEnd = "```";
constexpr std::array kArgumentKeys = {"arguments", "parameters"};
constexpr std::array kOtherKeys = {"type", "id", "tool_call_id"};

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool may_be_name(std::string_view name) {
  return !name.empty() && std::ranges::none_of(name, [](char c) {
    return is_space(c) || c == '<' || c == '>' || c == '{' || c == '"';
  });
}

template <std::size_t n>
bool is_one_of(const std::array<const char*, n>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

// The text of a JSON string; empty for what is none.
std::string string_of(const std::string& json) {
  const Json value = Json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : "";
}

// Some models write the object of arguments as a string.
std::string unwrapped(std::string arguments) {
  const std::string inner = string_of(arguments);
  return Json::parse(inner, nullptr, false).is_object() ? inner : arguments;
}

// functions.NAME:0 to NAME
std::string_view bare_name(std::string_view name, const CallFormat& format) {
  if (!format.id_mark.empty()) name = name.substr(0, name.find(format.id_mark));
  if (!format.name_prefix.empty() && name.starts_with(format.name_prefix)) {
    name.remove_prefix(format.name_prefix.size());
  }
  if (!format.index_mark.empty()) name = name.substr(0, name.rfind(format.index_mark));
  return name;
}

}  // namespace

void JsonCalls::Nesting::step(char c) {
  if (in_string) {
    if (!escaped && c == '"') in_string = false;
    escaped = !escaped && c == '\\';
    return;
  }
  if (c == '"') in_string = true;
  if (c == '{' || c == '[') ++depth;
  if (c == '}' || c == ']') --depth;
}

CallReading JsonCalls::read(std::string& text, CallDeltas& calls) {
  while (true) {
    const State before = state_;
    CallReading reading = CallReading::kNeedsMore;
    if (state_ == State::kStart) {
      const bool is_object = seen_ < text.size() && text[seen_] == '{';
      reading =
          format_->name_end.empty() || is_object || in_list_ ? start(text) : read_name(text, calls);
    } else if (state_ == State::kObject) {
      reading = read_object(text, calls);
    } else if (state_ == State::kArguments) {
      reading = read_arguments(text, calls);
    } else {
      reading = between(text);
    }
    if (reading != CallReading::kNeedsMore || state_ == before) return reading;
  }
}

CallReading JsonCalls::start(const std::string& text) {
  for (; seen_ < text.size(); ++seen_) {
    const char c = text[seen_];
    if (is_space(c)) continue;
    if (c == '{') {
      if (seen_ + 1 == text.size()) return CallReading::kNeedsMore;
      doubled_ = text[seen_ + 1] == '{';
      seen_ += doubled_ ? 1 : 0;
      state_ = State::kObject;
      return CallReading::kNeedsMore;
    }
    const std::string_view rest = std::string_view(text).substr(seen_);
    if (is_unmarked_ && !fenced_ && kFence.starts_with(rest.substr(0, kFence.size()))) {
      if (rest.size() < kFence.size()) return CallReading::kNeedsMore;
      fenced_ = true;
      seen_ += kFence.size() - 1;
      continue;
    }
    if (c != '[' || std::exchange(in_list_, true)) return CallReading::kNoCall;
  }
  return CallReading::kNeedsMore;
}

CallReading JsonCalls::read_name(std::string& text, CallDeltas& calls) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string::npos) return CallReading::kNeedsMore;
  if (text[first] == '{' || text[first] == '[') return start(text);
  const std::size_t end = text.find(format_->name_end, first);
  const std::string_view written = std::string_view(text).substr(first, end - first);
  if (end == std::string::npos) {
    const auto begins = [&](std::string_view name) {
      return name.starts_with(written) || written.starts_with(name);
    };
    const bool may_come =
        !is_unmarked_ || begins(format_->text_name) ||
        std::ranges::any_of(*tools_, [&](const Tool& tool) { return begins(tool.name); });
    return may_come && written.size() < kMaxNameBytes ? CallReading::kNeedsMore
                                                      : CallReading::kNoCall;
  }
  const std::string name(bare_name(written, *format_));
  const bool is_text = !name.empty() && name == format_->text_name;
  if (!is_text && (!may_be_name(name) || !accepts(name))) return CallReading::kNoCall;
  text.erase(0, end + format_->name_end.size());
  if (is_text) return CallReading::kDone;
  calls.begin(name);
  any_ = true;
  state_ = State::kArguments;
  return CallReading::kNeedsMore;
}

CallReading JsonCalls::read_arguments(std::string& text, CallDeltas& calls) {
  Nesting& nesting = object_.nesting;
  if (nesting.depth == 0) text.erase(0, text.find_first_not_of(kSpaces));
  if (text.empty()) return CallReading::kNeedsMore;
  if (nesting.depth == 0 && text.front() != '{') {
    calls.add("{}");
    calls.end();
    return CallReading::kDone;
  }
  std::size_t read = 0;
  while (read < text.size()) {
    nesting.step(text[read++]);
    if (nesting.depth == 0) break;
  }
  calls.add(std::string_view(text).substr(0, read));
  text.erase(0, read);
  if (nesting.depth > 0) return CallReading::kNeedsMore;
  calls.end();
  return CallReading::kDone;
}

CallReading JsonCalls::read_object(std::string& text, CallDeltas& calls) {
  bool is_call = true;
  while (is_call && seen_ < text.size() && state_ == State::kObject) {
    is_call = take(text[seen_++], calls);
  }
  if (any_) text.erase(0, std::exchange(seen_, 0));
  if (is_call) return CallReading::kNeedsMore;
  return any_ ? CallReading::kDone : CallReading::kNoCall;
}

// False: this is no call.
bool JsonCalls::take(char c, CallDeltas& calls) {
  Nesting& nesting = object_.nesting;
  const bool at_structure = nesting.depth == 1 && !nesting.in_string;
  const bool begins = nesting.depth == 0;
  nesting.step(c);
  if (begins) return true;
  if (at_structure && (c == ',' || nesting.depth == 0)) {
    if (object_.in_value && !end_value(calls)) return false;
    return nesting.depth > 0 || end_object(calls);
  }
  if (at_structure && c == ':' && !object_.in_value) {
    object_.key = string_of(std::exchange(object_.token, {}));
    object_.in_value = true;
    // Other JSON that begins an answer is shown as it comes.
    return !is_unmarked_ || any_ || is_one_of(kNameKeys, object_.key) ||
           is_one_of(kArgumentKeys, object_.key) || is_one_of(kOtherKeys, object_.key);
  }
  if (object_.token.empty() && !object_.streams) {  // before a key or a value
    if (is_space(c)) return true;
    if (!object_.in_value && c != '"') return false;
    object_.streams =
        object_.in_value && object_.is_named && c == '{' && is_one_of(kArgumentKeys, object_.key);
  }
  if (object_.streams) {
    calls.add({&c, 1});
  } else {
    object_.token += c;
  }
  return true;
}

// False: it has no name.
bool JsonCalls::end_object(CallDeltas& calls) {
  if (!object_.is_named) return false;
  if (!object_.has_arguments) calls.add("{}");
  calls.end();
  object_ = {};
  state_ = State::kBetween;
  return true;
}

// False: the name is not a tool's.
bool JsonCalls::end_value(CallDeltas& calls) {
  std::string value = std::exchange(object_.token, {});
  object_.in_value = false;
  if (std::exchange(object_.streams, false)) {
    object_.has_arguments = true;
    return true;
  }
  if (is_one_of(kNameKeys, object_.key) && !object_.is_named) {
    const std::string name = string_of(value);
    if (name.empty() || !accepts(name)) return false;
    calls.begin(name);
    any_ = object_.is_named = true;
    if (!object_.arguments.empty()) calls.add(object_.arguments);
    object_.has_arguments = !object_.arguments.empty();
  } else if (is_one_of(kArgumentKeys, object_.key)) {
    value.erase(value.find_last_not_of(kSpaces) + 1);
    if (value == "null") return true;
    object_.arguments = unwrapped(std::move(value));
    if (!object_.is_named) return true;
    calls.add(object_.arguments);
    object_.has_arguments = true;
  }
  return true;
}

CallReading JsonCalls::behind_fence(std::string& text) {
  const std::size_t at = text.find_first_not_of(kSpaces);
  if (at == std::string::npos) return CallReading::kNeedsMore;
  const std::string_view rest = std::string_view(text).substr(at, kFenceEnd.size());
  if (!kFenceEnd.starts_with(rest)) return CallReading::kDone;
  if (rest.size() < kFenceEnd.size()) return CallReading::kNeedsMore;
  text.erase(0, at + kFenceEnd.size());
  return CallReading::kDone;
}

// Another object of the list, or beside this one, or the end.
CallReading JsonCalls::between(std::string& text) {
  const std::size_t at = text.find_first_not_of(in_list_ ? " \n\r\t," : kSpaces);
  if (at == std::string::npos) return CallReading::kNeedsMore;
  if (text[at] == '}' && std::exchange(doubled_, false)) {
    text.erase(0, at + 1);
    return between(text);
  }
  if (text[at] == '{') {
    text.erase(0, at);
    seen_ = 0;
    state_ = State::kStart;
    return CallReading::kNeedsMore;
  }
  if (in_list_ && text[at] == ']') text.erase(0, at + 1);
  if (fenced_) return behind_fence(text);
  return CallReading::kDone;
}

}  // namespace outrider

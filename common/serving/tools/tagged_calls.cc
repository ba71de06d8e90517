// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/json.h"
#include "common/serving/tools/call_readers.h"

namespace outrider {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Without one line break at each end, with which models set values apart.
std::string_view without_frame(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

std::string text_in_json(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_text_only(const nlohmann::ordered_json& schema) {
  if (!schema.is_object()) return false;
  const auto type = schema.find("type");
  if (type != schema.end()) return *type == "string";
  const auto values = schema.find("enum");
  return values != schema.end() && values->is_array() &&
         std::ranges::all_of(*values, [](const auto& value) { return value.is_string(); });
}

}  // namespace

CallReading TaggedCalls::read(std::string& text, CallDeltas& calls) {
  if (state_ == State::kName) {
    const CallReading reading = read_name(text, calls);
    if (state_ == State::kName) return reading;
  }
  bool any = true;
  CallReading reading = CallReading::kNeedsMore;
  while (any && reading == CallReading::kNeedsMore) reading = read_argument(text, calls, any);
  return reading;
}

// Where the form has no mark behind the name, the first argument or the end of the call follows it.
CallReading TaggedCalls::read_name(std::string& text, CallDeltas& calls) {
  std::size_t end = text.find(format_->name_end);
  std::size_t length = format_->name_end.size();
  if (length == 0) {
    end = std::min(text.find(format_->key), text.find(format_->close));
  }
  if (end == std::string::npos) {
    const bool may_come = text.size() < kMaxNameBytes;
    return may_come ? CallReading::kNeedsMore : CallReading::kNoCall;
  }
  const std::string_view name = trimmed(std::string_view(text).substr(0, end));
  if (name.empty() || name.find_first_of(" \n\r\t<>{\"") != std::string_view::npos) {
    return CallReading::kNoCall;
  }
  name_ = name;
  calls.begin(name_);
  text.erase(0, end + length);
  state_ = State::kArguments;
  return CallReading::kNeedsMore;
}

// any: whether one was read.
CallReading TaggedCalls::read_argument(std::string& text, CallDeltas& calls, bool& any) {
  any = false;
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string::npos) return CallReading::kNeedsMore;
  const std::string_view rest = std::string_view(text).substr(first);
  if (!rest.starts_with(format_->key)) {
    const bool may_come = format_->key.starts_with(rest) || format_->close.starts_with(rest);
    if (may_come && rest != format_->close) return CallReading::kNeedsMore;
    calls.add(has_arguments_ ? "}" : "{}");
    calls.end();
    return CallReading::kDone;  // at `close`, or at something that is no argument
  }
  const std::size_t key = format_->key.size();
  const std::size_t key_end = rest.find(format_->key_end, key);
  if (key_end == std::string_view::npos) return CallReading::kNeedsMore;
  std::size_t value = key_end + format_->key_end.size();
  if (!format_->value.empty()) {
    const std::size_t mark = rest.find(format_->value, value);
    if (mark == std::string_view::npos) return CallReading::kNeedsMore;
    value = mark + format_->value.size();
  }
  const std::size_t value_end = rest.find(format_->value_end, value);
  if (value_end == std::string_view::npos) return CallReading::kNeedsMore;
  const std::string name(trimmed(rest.substr(key, key_end - key)));
  calls.add(has_arguments_ ? ", " : "{");
  calls.add(text_in_json(name) + ": " +
            json_of(name, without_frame(rest.substr(value, value_end - value))));
  has_arguments_ = any = true;
  text.erase(0, first + value_end + format_->value_end.size());
  return CallReading::kNeedsMore;
}

// The value in JSON: a text where the tool's schema asks for one, or where it is no JSON.
std::string TaggedCalls::json_of(const std::string& key, std::string_view value) const {
  const auto tool = std::ranges::find(*tools_, name_, &Tool::name);
  const nlohmann::ordered_json::json_pointer place =
      nlohmann::ordered_json::json_pointer() / "properties" / key;
  const bool is_text = tool != tools_->end() && tool->parameters.is_object() &&
                       tool->parameters.contains(place) && is_text_only(tool->parameters[place]);
  if (!is_text) {
    const auto json = nlohmann::ordered_json::parse(value, nullptr, false);
    if (!json.is_discarded()) return json.dump();
  }
  return text_in_json(value);
}

}  // namespace outrider

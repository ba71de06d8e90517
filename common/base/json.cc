// SPDX-License-Identifier: Apache-2.0
#include "common/base/json.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

namespace outrider {
namespace {

// The deepest nesting of brackets outside strings.
int json_depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
    if (deepest > kMaxJsonDepth) break;
  }
  return deepest;
}

// Notes the first key that an object has twice, while it is parsed.
class KeyWatch final {
 public:
  bool operator()(int /*depth*/, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key && !repeated_ &&
               !keys_.back().insert(parsed.get<std::string>()).second) {
      repeated_ = parsed.get<std::string>();
    }
    return true;
  }
  const std::optional<std::string>& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::optional<std::string> repeated_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& what, RepeatedKeys repeated) {
  if (text.empty()) return data_loss(what + ": empty, JSON expected");
  if (json_depth(text) > kMaxJsonDepth) {
    return data_loss(what + ": JSON nested deeper than " + std::to_string(kMaxJsonDepth));
  }
  try {
    if (repeated == RepeatedKeys::kLastStands) return Json::parse(text.begin(), text.end());
    KeyWatch watch;
    Json json = Json::parse(text.begin(), text.end(), std::ref(watch));
    if (!watch.repeated()) return json;
    return data_loss(what + ": the key " + printable(*watch.repeated()) +
                     " stands twice in one object. Remedy: leave one of them out")
        .with_detail({.reason = "invalid_json", .field = *watch.repeated()});
  } catch (const Json::exception& error) {
    return data_loss(what + ": not valid JSON: " + error.what());
  }
}

}  // namespace outrider

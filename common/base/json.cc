// SPDX-License-Identifier: Apache-2.0
#include "common/base/json.h"

#include <algorithm>

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

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& what) {
  if (text.empty()) return data_loss(what + ": empty, JSON expected");
  if (json_depth(text) > kMaxJsonDepth) {
    return data_loss(what + ": JSON nested deeper than " + std::to_string(kMaxJsonDepth));
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    return data_loss(what + ": not valid JSON: " + error.what());
  }
}

}  // namespace outrider

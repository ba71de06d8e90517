// JSON from files and peers, parsed without exceptions and with bounded depth.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

using Json = nlohmann::json;

// Deeper nesting is refused before parsing; the files we read need less than ten levels.
inline constexpr int kMaxJsonDepth = 64;

// `what` names the text in errors, for instance its path. Errors: kDataLoss for text that is empty,
// not UTF-8, not JSON, or too deep. A repeated key keeps its last value.
Result<Json> parse_json(std::string_view text, const std::string& what);

}  // namespace outrider

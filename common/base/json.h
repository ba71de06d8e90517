// JSON from files and peers, parsed without exceptions and with bounded depth.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

using Json = nlohmann::json;

// Deeper nesting is refused before parsing; the files we read need less than ten levels.
inline constexpr int kMaxJsonDepth = 64;

// Whether an object may have a key twice.
enum class RepeatedKeys : std::uint8_t { kLastStands, kRefused };

// `what` names the text in errors, for instance its path. Errors: kDataLoss for text that is empty,
// not UTF-8, not JSON, or too deep, and, named, for a key that is repeated where that is refused.
Result<Json> parse_json(std::string_view text, const std::string& what,
                        RepeatedKeys repeated = RepeatedKeys::kLastStands);

}  // namespace outrider

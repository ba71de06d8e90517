// The name by which one request is found in the logs of all that it passes: a client gives it, or
// the first program that it meets.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace outrider {

// The header of HTTP, and the metadata of a gRPC call.
inline constexpr const char* kRequestIdHeader = "x-request-id";
inline constexpr std::size_t kLongestRequestId = 128;

// It may stand in a log and a header as it is: letters, digits, dashes, dots, colons, underscores.
inline bool is_request_id(std::string_view id) {
  return !id.empty() && id.size() <= kLongestRequestId &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.' || c == ':' || c == '_';
         });
}

}  // namespace outrider

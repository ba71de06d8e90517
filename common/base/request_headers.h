// The headers that both programs read, in HTTP requests and in the metadata of gRPC calls.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace outrider {

// The id under which the logs of all programs list a request. The client chooses it, or else the
// first program that receives the request.
inline constexpr const char* kRequestIdHeader = "x-request-id";
inline constexpr std::size_t kLongestRequestId = 128;

// Whether an id may appear unescaped in a log and a header: letters, digits, dashes, dots, colons,
// underscores.
inline bool is_request_id(std::string_view id) {
  return !id.empty() && id.size() <= kLongestRequestId &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.' || c == ':' || c == '_';
         });
}

// The context of a trace (W3C Trace Context), in which other programs find the spans of a request.
inline constexpr const char* kTraceparentHeader = "traceparent";
inline constexpr const char* kTracestateHeader = "tracestate";
struct TraceHeaders {
  std::string parent = {};  // empty: none came
  std::string state = {};
};

// The key in "Authorization: Bearer KEY". Empty if the value has another scheme, whose case does
// not matter (RFC 9110, 11.1).
inline std::string_view bearer_key_in(std::string_view value) {
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() < kScheme.size() ||
      strncasecmp(value.data(), kScheme.data(), kScheme.size()) != 0) {
    return {};
  }
  return value.substr(kScheme.size());
}

}  // namespace outrider

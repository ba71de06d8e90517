// The key in "Authorization: Bearer KEY", of HTTP and of a gRPC call's metadata.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <strings.h>

#include <string_view>

namespace outrider {

// Empty if the value has no such scheme, whose case does not matter (RFC 9110, 11.1).
inline std::string_view bearer_key_in(std::string_view value) {
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() < kScheme.size() ||
      strncasecmp(value.data(), kScheme.data(), kScheme.size()) != 0) {
    return {};
  }
  return value.substr(kScheme.size());
}

}  // namespace outrider

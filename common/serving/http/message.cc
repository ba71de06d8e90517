// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/message.h"

#include <algorithm>

#include "common/base/request_headers.h"

namespace outrider {

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return out;
}

const std::string& HttpRequest::header(const std::string& name) const {
  static const std::string none;
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return none;
}

std::string_view HttpRequest::bearer_key() const {
  return bearer_key_in(header("authorization"));
}

std::string_view HttpRequest::api_key() const {
  const std::string_view bearer = bearer_key();
  return bearer.empty() ? std::string_view(header("x-api-key")) : bearer;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/http/error_response.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/rate_limit.h"

namespace outrider {
namespace {

struct Form {
  int code = 500;
  const char* type = "server_error";
};

Form form_of(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnimplemented:
    case StatusCode::kFailedPrecondition:
      return {400, "invalid_request_error"};
    case StatusCode::kUnauthenticated:
      return {401, "authentication_error"};
    case StatusCode::kPermissionDenied:
      return {403, "permission_error"};
    case StatusCode::kNotFound:
      return {404, "invalid_request_error"};
    case StatusCode::kResourceExhausted:
      return {429, "rate_limit_error"};
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      return {503};
    default:
      return {};
  }
}

Duration some_seconds() {
  static std::atomic<std::uint64_t> number{0};
  return spread_delay(std::chrono::milliseconds(1500),
                      number.fetch_add(1, std::memory_order_relaxed));
}

void add_retry_after(HttpHeaders& headers, Duration delay) {
  const auto at_least = [](double time) { return std::to_string(std::llround(std::ceil(time))); };
  const double seconds = std::max(to_seconds(delay), 0.001);
  headers.emplace_back("Retry-After", at_least(seconds));
  headers.emplace_back("Retry-After-Ms", at_least(seconds * 1e3));
}

}  // namespace

HttpResponse error_response(const Status& status, std::optional<Duration> retry_after) {
  using Json = nlohmann::ordered_json;
  const Form form = form_of(status.code());
  const Json json = {{"error",
                      {{"message", status.message()},
                       {"type", form.type},
                       {"param", nullptr},
                       {"code", to_string(status.code())}}}};
  HttpResponse response{.status = form.code,
                        .body = json.dump(-1, ' ', false, Json::error_handler_t::replace),
                        .content_type = "application/json"};
  if (form.code == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (form.code == 429 || form.code == 503) {
    add_retry_after(response.headers, retry_after ? *retry_after : some_seconds());
  }
  return response;
}

}  // namespace outrider

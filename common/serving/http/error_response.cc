// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/error_response.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/rate_limit.h"

namespace outrider {
namespace {

// The status and words that OpenAI's clients read. code: used where the status has no reason of its
// own.
struct Form {
  int status = 500;
  const char* type = "server_error";
  const char* code = "server_error";
};

Form form_of(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return {400, "invalid_request_error", "invalid_value"};
    case StatusCode::kUnimplemented:
      return {400, "invalid_request_error", "unsupported_parameter"};
    case StatusCode::kFailedPrecondition:
      return {400, "invalid_request_error", "failed_precondition"};
    case StatusCode::kUnauthenticated:
      return {401, "invalid_request_error", "invalid_api_key"};
    case StatusCode::kPermissionDenied:
      return {403, "permission_error", "permission_denied"};
    case StatusCode::kNotFound:
      return {404, "invalid_request_error", "unknown_url"};
    case StatusCode::kResourceExhausted:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case StatusCode::kUnavailable:
      return {503, "server_error", "service_unavailable"};
    case StatusCode::kDeadlineExceeded:
      return {503, "server_error", "timeout"};
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
  const auto& [reason, field] = status.detail();
  const Json json = {{"error",
                      {{"message", status.message()},
                       {"type", form.type},
                       {"param", field.empty() ? Json() : Json(field)},
                       {"code", reason.empty() ? form.code : reason}}}};
  HttpResponse response{.status = form.status,
                        .body = json.dump(-1, ' ', false, Json::error_handler_t::replace),
                        .content_type = "application/json"};
  if (form.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (form.status == 429 || form.status == 503) {
    add_retry_after(response.headers, retry_after ? *retry_after : some_seconds());
  }
  return response;
}

}  // namespace outrider

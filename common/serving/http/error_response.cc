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

// The status and words that clients read. code: used where the status has no reason of its own.
struct Form {
  int status = 500;
  const char* type = "server_error";
  const char* code = "server_error";
  const char* anthropic_type = "api_error";
};

Form form_of(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return {400, "invalid_request_error", "invalid_value", "invalid_request_error"};
    case StatusCode::kUnimplemented:
      return {400, "invalid_request_error", "unsupported_parameter", "invalid_request_error"};
    case StatusCode::kFailedPrecondition:
      return {400, "invalid_request_error", "failed_precondition", "invalid_request_error"};
    case StatusCode::kUnauthenticated:
      return {401, "invalid_request_error", "invalid_api_key", "authentication_error"};
    case StatusCode::kPermissionDenied:
      return {403, "permission_error", "permission_denied", "permission_error"};
    case StatusCode::kNotFound:
      return {404, "invalid_request_error", "unknown_url", "not_found_error"};
    case StatusCode::kResourceExhausted:
      return {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"};
    case StatusCode::kUnavailable:
      return {503, "server_error", "service_unavailable", "overloaded_error"};
    case StatusCode::kDeadlineExceeded:
      return {503, "server_error", "timeout", "timeout_error"};
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

HttpResponse error_response(const Status& status, std::optional<Duration> retry_after,
                            ErrorForm error_form) {
  using Json = nlohmann::ordered_json;
  const Form form = form_of(status.code());
  const auto& [reason, field] = status.detail();
  const bool is_anthropic = error_form == ErrorForm::kAnthropic;
  Json json;
  if (is_anthropic) json["type"] = "error";
  json["error"] = {{"message", status.message()},
                   {"type", is_anthropic ? form.anthropic_type : form.type},
                   {"param", field.empty() ? Json() : Json(field)},
                   {"code", reason.empty() ? form.code : reason}};
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

// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/error_response.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"

namespace outrider {
namespace {

std::string header(const HttpResponse& response, const std::string& name) {
  const auto at = std::ranges::find(response.headers, name, &HttpHeaders::value_type::first);
  return at == response.headers.end() ? "" : at->second;
}

TEST(ErrorResponse, RefusedClientsAreNotToldToComeBackTogether) {
  std::set<std::string> milliseconds;
  std::set<std::string> seconds;
  for (int i = 0; i < 100; ++i) {
    const HttpResponse refusal = error_response(resource_exhausted("full"));
    EXPECT_EQ(refusal.status, 429);
    seconds.insert(header(refusal, "Retry-After"));
    milliseconds.insert(header(refusal, "Retry-After-Ms"));
  }
  EXPECT_EQ(seconds, (std::set<std::string>{"2", "3"}));
  EXPECT_GT(milliseconds.size(), 90U);
  EXPECT_GE(*milliseconds.begin(), "1500");
  EXPECT_LE(*milliseconds.rbegin(), "2250");
}

TEST(ErrorResponse, AKnownDelayIsToldAsItIs) {
  const HttpResponse refusal =
      error_response(unavailable("draining"), std::chrono::milliseconds(12'700));
  EXPECT_EQ(refusal.status, 503);
  EXPECT_EQ(header(refusal, "Retry-After"), "13");
  EXPECT_EQ(header(refusal, "Retry-After-Ms"), "12700");
  EXPECT_EQ(header(error_response(unavailable("busy"), Duration{0}), "Retry-After"), "1");
  const Duration late = std::chrono::milliseconds(2400);
  EXPECT_EQ(header(error_response(unavailable("busy"), late), "Retry-After"), "3") << "not before";
  EXPECT_EQ(header(error_response(not_found("no page")), "Retry-After"), "");
}

TEST(ErrorResponse, SpeaksAnthropicsWordsWhereItsClientsRead) {
  const auto body = [](const Status& status) {
    return Json::parse(error_response(status, std::nullopt, ErrorForm::kAnthropic).body);
  };
  EXPECT_EQ(body(invalid_argument("no"))["type"], "error");
  EXPECT_EQ(body(invalid_argument("no"))["error"]["message"], "no");
  for (const auto& [status, type] : {std::pair(invalid_argument(""), "invalid_request_error"),
                                     std::pair(unimplemented(""), "invalid_request_error"),
                                     std::pair(unauthenticated(""), "authentication_error"),
                                     std::pair(permission_denied(""), "permission_error"),
                                     std::pair(not_found(""), "not_found_error"),
                                     std::pair(resource_exhausted(""), "rate_limit_error"),
                                     std::pair(unavailable(""), "overloaded_error"),
                                     std::pair(internal_error(""), "api_error")}) {
    EXPECT_EQ(body(status)["error"]["type"], type);
  }
}

TEST(ErrorResponse, SpeaksOpenaisWords) {
  const auto told = [](const Status& status) {
    const Json error = Json::parse(error_response(status).body)["error"];
    return Json::array({error["type"], error["code"], error["param"]});
  };
  const char* const kInvalid = "invalid_request_error";
  const std::vector<std::pair<Status, Json>> words = {
      {invalid_argument("x"), {kInvalid, "invalid_value", nullptr}},
      {unimplemented("x"), {kInvalid, "unsupported_parameter", nullptr}},
      {failed_precondition("x"), {kInvalid, "failed_precondition", nullptr}},
      {unauthenticated("x"), {kInvalid, "invalid_api_key", nullptr}},
      {permission_denied("x"), {"permission_error", "permission_denied", nullptr}},
      {not_found("x"), {kInvalid, "unknown_url", nullptr}},
      {resource_exhausted("x"), {"rate_limit_error", "rate_limit_exceeded", nullptr}},
      {unavailable("x"), {"server_error", "service_unavailable", nullptr}},
      {deadline_exceeded("x"), {"server_error", "timeout", nullptr}},
      {internal_error("x"), {"server_error", "server_error", nullptr}},
      {invalid_argument("x").with_detail({"context_length_exceeded", "messages"}),
       {kInvalid, "context_length_exceeded", "messages"}},
      {not_found("x").with_detail({"model_not_found", "model"}),
       {kInvalid, "model_not_found", "model"}}};
  for (const auto& [status, expected] : words) {
    EXPECT_EQ(told(status), expected) << status.to_string();
  }
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/http/error_response.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

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

}  // namespace
}  // namespace outrider

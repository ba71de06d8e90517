// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/host_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

HttpRequest request(const std::string& host, HttpHeaders more = {}) {
  HttpRequest asked;
  if (!host.empty()) asked.headers.emplace_back("host", host);
  for (auto& header : more) asked.headers.push_back(std::move(header));
  return asked;
}

const HostRules kLoopback{};
const HostRules kNamed{.allowed = {"robot.example"}};
const HostRules kNetwork{.any_name_without_origin = true};

TEST(HostRules, AddressesAndNamesOfTheLoopbackLeadHere) {
  for (const char* host :
       {"localhost", "LocalHost:8080", "localhost.", "127.0.0.1:8080", "[::1]:80", "LOCALHOST.:80",
        "[::ffff:127.0.0.1]:8080", "192.0.2.7:8000", "app.localhost", ""}) {
    EXPECT_EQ(check_host(request(host), kLoopback), Status()) << host;
  }
}

TEST(HostRules, ANameThatAnySiteCanHaveLedHereIsRefusedWithItsRemedy) {
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example",
                           "127.0.0.1.evil.example", "0x7f.1", "[::1].evil.example"}) {
    const Status refused = check_host(request(host), kLoopback);
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << host;
    EXPECT_THAT(refused.message(), HasSubstr("--allowed-hosts"));
    // Its page is of the same origin as this server, as the browser sees it.
    for (const HostRules* rules : {&kLoopback, &kNamed, &kNetwork}) {
      EXPECT_FALSE(
          check_host(request(host, {{"origin", "http://" + std::string(host)}}), *rules).ok())
          << host;
    }
  }
  EXPECT_EQ(check_host(request("Robot.example:8080"), kNamed), Status());
  EXPECT_EQ(check_host(request("evil.example"), {.allowed = {"*"}}), Status());
}

TEST(HostRules, InANetworkOnlyPagesMustUseNamesThatAreAllowed) {
  EXPECT_EQ(check_host(request("server.default.svc:8000"), kNetwork), Status());
  EXPECT_FALSE(
      check_host(request("server.default.svc:8000", {{"origin", "http://server.default.svc:8000"}}),
                 kNetwork)
          .ok());
}

TEST(HostRules, AllowedHostsAreNamesInAnyForm) {
  const HostRules rules{.allowed = {"Robot.Example.", "[2001:db8::1]"}};
  for (const char* host :
       {"robot.example", "ROBOT.example:80", "robot.example.", "[2001:DB8::1]"}) {
    EXPECT_EQ(check_host(request(host), rules), Status()) << host;
  }
}

TEST(HostRules, PagesOfAllowedOriginsMayUseTheServerByItsNames) {
  const HostRules rules{.allowed = {"robot.example"},
                        .any_name_without_origin = false,
                        .allowed_origins = {"https://App.example/", "null"}};
  const auto from = [&](const std::string& origin, const std::string& host) {
    return check_host(request(host, {{"origin", origin}}), rules).ok();
  };
  EXPECT_TRUE(from("https://app.example", "robot.example"));
  EXPECT_TRUE(from("https://APP.example", "localhost:8080"));
  EXPECT_TRUE(from("null", "localhost:8080"));
  EXPECT_FALSE(from("https://app.example:8443", "localhost:8080"));
  EXPECT_FALSE(from("https://app.example", "evil.example")) << "a name that may lead anywhere";
  EXPECT_THAT(
      check_host(request("localhost", {{"origin", "https://evil.example"}}), rules).message(),
      HasSubstr("--allowed-origins"));
  EXPECT_TRUE(
      origin_headers(request("localhost", {{"origin", "https://app.example"}}), {}, "").empty())
      << "none by default";
}

TEST(HostRules, APageMustBeThisServersOwn) {
  const auto from = [](const std::string& origin, const std::string& host, HttpHeaders more = {}) {
    more.emplace_back("origin", origin);
    return check_host(request(host, std::move(more)), kNamed).ok();
  };
  EXPECT_TRUE(from("http://localhost:8080", "localhost:8080"));
  EXPECT_FALSE(from("http://localhost:3000", "localhost:8080"));
  EXPECT_FALSE(from("http://evil.example", "localhost:8080"));
  EXPECT_FALSE(from("http://192.0.2.66", "127.0.0.1:8080"));
  EXPECT_FALSE(from("null", "localhost:8080"));
  // Behind a proxy that ends TLS.
  EXPECT_TRUE(from("https://robot.example", "robot.example", {{"x-forwarded-proto", "https"}}));
  EXPECT_TRUE(from("https://robot.example", "127.0.0.1:8080",
                   {{"x-forwarded-proto", "https"}, {"x-forwarded-host", "robot.example"}}));
  EXPECT_FALSE(from("https://robot.example", "robot.example"));
  EXPECT_FALSE(from("https://evil.example", "127.0.0.1:8080",
                    {{"x-forwarded-proto", "https"}, {"x-forwarded-host", "evil.example"}}));
  EXPECT_FALSE(from("https://evil.example", "127.0.0.1:8080",
                    {{"x-forwarded-proto", "https"}, {"x-forwarded-host", "robot.example"}}));
}

}  // namespace
}  // namespace outrider

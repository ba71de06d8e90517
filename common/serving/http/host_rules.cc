// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/host_rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string_view>

#include "common/base/address.h"

namespace outrider {
namespace {

// "Robot.local:8080" to "robot.local", "[::1]:8080" to "[::1]".
std::string name_in(std::string_view authority) {
  const std::size_t bracket = authority.find(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string name = lower_case(authority.substr(0, colon));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_address(const std::string& name) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return true;
  return name.starts_with('[') && name.ends_with(']') &&
         inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &v6) == 1;
}

bool is_allowed(const std::string& name, const HostRules& rules) {
  if (is_address(name) || is_loopback(name) || name.ends_with(".localhost")) return true;
  return std::ranges::any_of(rules.allowed, [&](const std::string& allowed) {
    return allowed == "*" || name_in(allowed) == name;
  });
}

// "HTTPS://App.example/" to "https://app.example".
std::string origin_in(const std::string& text) {
  std::string origin = lower_case(text);
  if (origin.ends_with('/')) origin.pop_back();
  return origin;
}

bool is_allowed_origin(const std::string& origin, const HostRules& rules) {
  return std::ranges::any_of(rules.allowed_origins, [&](const std::string& allowed) {
    return allowed == "*" || origin_in(allowed) == lower_case(origin);
  });
}

Status not_answered(const std::string& what, const std::string& name) {
  return permission_denied(what + " are refused; if that name belongs to this server, add " +
                           printable(name) + " to --allowed-hosts");
}

}  // namespace

Status check_origins(const std::vector<std::string>& origins) {
  for (const std::string& each : origins) {
    const std::string origin = origin_in(each);
    const std::size_t scheme = origin.find("://");
    const bool is_url = scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size() &&
                        origin.find_first_of("/?#@ *", scheme + 3) == std::string::npos;
    if (is_url || origin == "null" || origin == "*") continue;
    return invalid_argument("--allowed-origins has " + printable(each) +
                            ", which is no origin; write SCHEME://HOST or SCHEME://HOST:PORT, for "
                            "example https://app.example, or * for any");
  }
  return {};
}

Status check_host(const HttpRequest& request, const HostRules& rules) {
  const std::string& host = request.header("host");
  const std::string& origin = request.header("origin");
  const std::string name = name_in(host);
  const bool is_admitted = origin.empty() || is_allowed_origin(origin, rules);
  const bool any_name = rules.any_name_without_origin && is_admitted;
  if (!host.empty() && !any_name && !is_allowed(name, rules)) {
    return not_answered("requests for the host " + printable(name), name);
  }
  if (is_admitted) return {};
  const bool is_secure = request.is_secure || request.header("x-forwarded-proto") == "https";
  const std::string scheme = is_secure ? "https://" : "http://";
  const std::string& outside = request.header("x-forwarded-host");
  if (origin != scheme + host && (outside.empty() || origin != scheme + outside)) {
    return permission_denied(
        "requests from pages of " + printable(origin) +
        " are refused, because they are not this server's own; add that origin to "
        "--allowed-origins to admit them; a proxy must keep Host, or send it as X-Forwarded-Host, "
        "and send https as X-Forwarded-Proto");
  }
  const std::string page = name_in(std::string_view(origin).substr(scheme.size()));
  if (!is_allowed(page, rules)) {
    return not_answered("requests from pages of " + printable(page), page);
  }
  return {};
}

HttpHeaders origin_headers(const HttpRequest& request, const HostRules& rules,
                           const std::string& methods) {
  if (rules.allowed_origins.empty()) return {};
  HttpHeaders headers = {{"Vary", "Origin"}};
  const std::string& origin = request.header("origin");
  if (origin.empty() || !is_allowed_origin(origin, rules)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers",
                       "X-Request-Id, Retry-After, Retry-After-Ms");
  if (request.method != "OPTIONS") return headers;
  headers.emplace_back("Access-Control-Allow-Methods", methods);
  headers.emplace_back("Access-Control-Max-Age", "600");
  const std::string& asked = request.header("access-control-request-headers");
  if (!asked.empty()) headers.emplace_back("Access-Control-Allow-Headers", asked);
  if (request.header("access-control-request-private-network") == "true") {
    headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return headers;
}

}  // namespace outrider

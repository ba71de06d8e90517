// SPDX-License-Identifier: Apache-2.0
#include "common/http/host_rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string_view>

#include "common/base/address.h"

namespace outrider {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return out;
}

// "Robot.local:8080" to "robot.local", "[::1]:8080" to "[::1]".
std::string name_in(std::string_view authority) {
  const std::size_t bracket = authority.find(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string name = lower(authority.substr(0, colon));
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

Status not_answered(const std::string& what, const std::string& name) {
  return permission_denied(what + " are refused; if that name belongs to this server, add " +
                           printable(name) + " to --allowed-hosts");
}

}  // namespace

Status check_host(const HttpRequest& request, const HostRules& rules) {
  const std::string& host = request.header("host");
  const std::string& origin = request.header("origin");
  const std::string name = name_in(host);
  const bool any_name = rules.any_name_without_origin && origin.empty();
  if (!host.empty() && !any_name && !is_allowed(name, rules)) {
    return not_answered("requests for the host " + printable(name), name);
  }
  if (origin.empty()) return {};
  const std::string scheme =
      request.header("x-forwarded-proto") == "https" ? "https://" : "http://";
  const std::string& outside = request.header("x-forwarded-host");
  if (origin != scheme + host && (outside.empty() || origin != scheme + outside)) {
    return permission_denied(
        "requests from pages of " + printable(origin) +
        " are refused, because they are not this server's own; a proxy must keep Host, or send it "
        "as X-Forwarded-Host, and send https as X-Forwarded-Proto");
  }
  const std::string page = name_in(std::string_view(origin).substr(scheme.size()));
  if (!is_allowed(page, rules)) {
    return not_answered("requests from pages of " + printable(page), page);
  }
  return {};
}

}  // namespace outrider

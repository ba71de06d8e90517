// SPDX-License-Identifier: Apache-2.0
#include "common/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace outrider {
namespace {

Status bad_address(std::string_view text, std::string_view why) {
  return invalid_argument("address " + printable(text) + " " + std::string(why) +
                          "; write HOST:PORT, for example 127.0.0.1:8001 or [::1]:8001");
}

Result<std::uint16_t> parse_port(std::string_view text, std::string_view digits) {
  unsigned value = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || error != std::errc() || rest != end || value > 65535) {
    return bad_address(text, "has the port '" + std::string(digits) + "', must be 0 to 65535");
  }
  return static_cast<std::uint16_t>(value);
}

// A literal of IPv4 or IPv6, with its zone, or a name.
bool is_host(std::string_view host) {
  return std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._:%").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string Address::to_string() const {
  const bool is_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parse_address(std::string_view text) {
  OUTRIDER_RETURN_IF_ERROR(check_is_tcp(text));
  if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    return bad_address(text, "begins with '" + std::string(text.substr(0, scheme + 3)) +
                                 "', which does not belong to it");
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad_address(text, "has no port");
  std::string_view host = text.substr(0, colon);
  const bool in_brackets = without_brackets(host) != host;
  host = without_brackets(host);
  if (host.empty()) return bad_address(text, "has no host");
  if (!in_brackets && host.find(':') != std::string_view::npos) {
    return bad_address(text, "holds an IPv6 address without brackets");
  }
  if (!is_host(host)) return bad_address(text, "holds a character that no host has");
  OUTRIDER_ASSIGN_OR_RETURN(const std::uint16_t port, parse_port(text, text.substr(colon + 1)));
  return Address{std::string(host), port};
}

std::string_view without_brackets(std::string_view host) {
  const bool has_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

Status check_is_tcp(std::string_view host) {
  if (!host.starts_with("unix:") && !host.starts_with("unix-abstract:") && !host.starts_with('/')) {
    return {};
  }
  return invalid_argument(
      printable(host) +
      " is a Unix socket, and Outrider speaks TCP only; use 127.0.0.1 and a port, "
      "which other machines cannot reach either");
}

bool is_loopback(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  const std::string bare(without_brackets(host));
  if (strcasecmp(bare.c_str(), "localhost") == 0) return true;
  in6_addr v6{};
  in_addr v4{};
  if (inet_pton(AF_INET6, bare.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_LOOPBACK(&v6)) return true;
    return IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127;
  }
  return inet_pton(AF_INET, bare.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

std::string network_of(const std::string& host) {
  constexpr std::array<std::uint8_t, 12> kNat64 = {0x00, 0x64, 0xff, 0x9b};  // RFC 6052
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return host;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IN6_IS_ADDR_V4MAPPED(&v6) || std::equal(kNat64.begin(), kNat64.end(), v6.s6_addr)) {
    inet_ntop(AF_INET, &v6.s6_addr[kNat64.size()], text.data(), text.size());
    return text.data();
  }
  const bool stays = IN6_IS_ADDR_LINKLOCAL(&v6) || IN6_IS_ADDR_LOOPBACK(&v6);
  if (!stays) std::fill(std::begin(v6.s6_addr) + 8, std::end(v6.s6_addr), std::uint8_t{0});
  inet_ntop(AF_INET6, &v6, text.data(), text.size());
  return stays ? text.data() : std::string(text.data()) + "/64";
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/base/address.h"

#include <arpa/inet.h>

#include <charconv>

namespace outrider {
namespace {

Status bad_address(std::string_view text, std::string_view why) {
  return invalid_argument("address '" + std::string(text) + "' " + std::string(why) +
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

}  // namespace

std::string Address::to_string() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad_address(text, "has no port");
  std::string_view host = text.substr(0, colon);
  const bool in_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad_address(text, "has no host");
  if (!in_brackets && host.find(':') != std::string_view::npos) {
    return bad_address(text, "holds an IPv6 address without brackets");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::uint16_t port, parse_port(text, text.substr(colon + 1)));
  return Address{std::string(host), port};
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  in_addr v4{};
  return inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

}  // namespace outrider

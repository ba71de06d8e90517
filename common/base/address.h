// HOST:PORT as text, and whether the host is this machine. Thread rule: pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

struct Address {
  std::string host;  // a name or a literal; IPv6 with or without brackets
  std::uint16_t port = 0;

  // "host:port", "[::1]:port".
  std::string to_string() const;
};

// "host:port" or "[v6]:port". INVALID_ARGUMENT names what is missing.
Result<Address> parse_address(std::string_view text);

// "[::1]" to "::1"; any other host as it is.
std::string_view without_brackets(std::string_view host);

// INVALID_ARGUMENT for the path of a Unix socket, as "unix:/run/x": only TCP is spoken.
Status check_is_tcp(std::string_view host);

// True for localhost, 127.0.0.0/8 and ::1, in any form: "LOCALHOST.", "[::1]", "::ffff:127.0.0.1".
// Resolves no names: any other name is not loopback.
bool is_loopback(std::string_view host);

// The key under which limits per address count a host. An IPv4 address is its own key, also inside
// IPv6 (::ffff:192.0.2.1, 64:ff9b::192.0.2.1). An IPv6 address counts as its /64, because one host
// can use all of it. Link-local addresses and text that is no address are their own keys.
std::string network_of(const std::string& host);

}  // namespace outrider

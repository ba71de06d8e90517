// HOST:PORT as people write it, and whether it stays on this machine.
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

struct Address {
  std::string host;  // a name or a literal; IPv6 without brackets
  std::uint16_t port = 0;

  // "host:port", "[::1]:port".
  std::string to_string() const;
};

// "host:port" or "[v6]:port". INVALID_ARGUMENT names what is missing.
Result<Address> parse_address(std::string_view text);

// localhost, 127.0.0.0/8, ::1. Never asks a resolver: another name is not loopback.
bool is_loopback(std::string_view host);

// Whose an address is, as far as bounds "of each address" go: an IPv4 address stands for itself,
// also where IPv6 carries it (::ffff:192.0.2.1, 64:ff9b::192.0.2.1); an IPv6 address stands for its
// /64, of which a single host can use any. Addresses that do not leave their link, and what is no
// address, stand for themselves.
std::string network_of(const std::string& host);

}  // namespace outrider

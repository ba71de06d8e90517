// Listening sockets, opened by ourselves so that the reason of a failure is known.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/address.h"
#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

// UNAVAILABLE, with the reason and the remedy.
Status cannot_listen(const Address& address, const std::string& why);

// The descriptor, which the caller owns; at the first of the addresses that the name has.
Result<int> listen_on(const Address& address);
// At all of them, on one port: localhost may be 127.0.0.1 and ::1. An address that this machine
// does not have is left out, as long as there is another.
Result<std::vector<UniqueFd>> listen_on_all(const Address& address);
std::uint16_t port_of(int fd);

// Takes as many file descriptors as the system allows this process, and says how many that is. A
// server that has run out of them accepts nobody: call it before one listens.
std::size_t raise_descriptor_limit();

}  // namespace outrider

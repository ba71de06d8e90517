// Sockets at the ends of a link.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "emulation/process/process.h"

namespace outrider {

// The kernel's headers of a datagram: IPv4 and UDP.
inline constexpr int kDatagramHeaders = 28;

// Non-blocking, bound to a free port of that side, with room for a burst.
Result<UniqueFd> udp_socket(const NetworkSide& side);

// The same for TCP: listening (non-blocking), and connected to `to` (blocking, without delay).
Result<UniqueFd> tcp_listener(const NetworkSide& side);
Result<UniqueFd> tcp_connection(const NetworkSide& side, const Address& to);

// The socket's own address.
Result<Address> local_address(int socket);

// Sends everything of this socket to that address.
Status connect_to(int socket, const Address& to);

// Waits until there is something to read, or until that time.
void wait_readable(int socket, TimePoint until);

}  // namespace outrider

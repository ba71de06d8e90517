// Listening sockets, opened here so that the reason of a failure is known.
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

// Listens on the first of the name's addresses. The caller owns the descriptor.
Result<int> listen_on(const Address& address);
// Listens on all of the name's addresses, on one port: localhost may be 127.0.0.1 and ::1. An
// address that this machine does not have is skipped if there is another.
Result<std::vector<UniqueFd>> listen_on_all(const Address& address);
std::uint16_t port_of(int fd);

// Raises the limit of file descriptors as far as the system allows, and returns it. A server
// without free descriptors accepts no connection: call this before listening.
std::size_t raise_descriptor_limit();

}  // namespace outrider

// A listening socket, opened by ourselves so that the reason of a failure is known.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/address.h"
#include "common/base/status.h"

namespace outrider {

// UNAVAILABLE, with the reason and the remedy.
Status cannot_listen(const Address& address, const std::string& why);

// The descriptor, which the caller owns.
Result<int> listen_on(const Address& address);
std::uint16_t port_of(int fd);

}  // namespace outrider

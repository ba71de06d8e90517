// A TUN device: a network interface whose packets a program reads and writes.
//
// Thread rule: a free function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

// Numeric IPv4 addresses of a point-to-point interface.
struct TunAddresses {
  std::string own;
  std::string peer;
};

inline constexpr int kTunMtu = 1500;

// Makes one in that network namespace and brings it up. Each read() of the non-blocking descriptor
// gives one IP packet that the namespace sends, each write() is one that it receives. The interface
// goes with the descriptor. FAILED_PRECONDITION where there is no /dev/net/tun, or no right to it.
Result<UniqueFd> open_tun(int network_namespace, const TunAddresses& addresses);

}  // namespace outrider

// What a service manager that waits for it is told (sd_notify(3)): nothing without NOTIFY_SOCKET.
//
//   notify_supervisor("READY=1");  ..  notify_supervisor("WATCHDOG=1");  ..  "STOPPING=1"
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace outrider {

// False if nobody waits for it, or it could not be told.
bool notify_supervisor(std::string_view state);

}  // namespace outrider

// Notifies a service manager that waits for it (sd_notify(3)); nothing without NOTIFY_SOCKET.
//
//   notify_supervisor("READY=1");  ..  notify_supervisor("WATCHDOG=1");  ..  "STOPPING=1"
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace outrider {

// False if none waits, or the notification could not be sent.
bool notify_supervisor(std::string_view state);

}  // namespace outrider

// A server as a whole program: outrider-server, or another program with additional parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cloud_server/options.h"

namespace outrider {

// Returns the exit code. parts: outlives the call.
int server_main(int argc, char** argv, const ServerParts& parts);

}  // namespace outrider

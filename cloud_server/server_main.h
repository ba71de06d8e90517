// A server as a whole program: outrider-server, or another one with parts of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cloud_server/options.h"

namespace outrider {

// Returns the exit code. parts: outlive it.
int server_main(int argc, char** argv, const ServerParts& parts);

}  // namespace outrider

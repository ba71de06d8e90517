// A server as a whole program: outrider-server, or another program with additional parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace outrider {

struct ServerParts;  // options.h

// Returns the exit code. parts: outlives the call.
int server_main(int argc, char** argv, const ServerParts& parts);
// outrider-server itself.
int server_main(int argc, char** argv);

}  // namespace outrider

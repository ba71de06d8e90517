// Sends gRPC's own log lines to Outrider's log. gRPC's errors become warnings, at most one line in
// ten seconds with the number of suppressed ones, so that a peer cannot flood a terminal. Other
// lines are debug output; their relevant content also arrives as a Status.
//
// Thread rule: take_over_grpc_log() once, before the first channel or server; the counter from any
// thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace outrider {

void take_over_grpc_log();

// Errors that gRPC has logged since then.
std::uint64_t grpc_errors();
// The errors among them that are failed TLS handshakes, in servers and channels of this process.
std::uint64_t failed_handshakes();

}  // namespace outrider

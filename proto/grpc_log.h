// gRPC's own log lines go to Outrider's log. Its errors are warnings there, at most one line in
// ten seconds with the number of those it stands for, as a peer must not be able to fill a
// terminal; all else is for debugging: what matters of it comes as a Status.
//
// Thread rule: take_over_grpc_log() once, before the first channel or server; the counter from any
// thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace outrider {

void take_over_grpc_log();

// Errors that gRPC has logged since.
std::uint64_t grpc_errors();
// Of these: TLS handshakes that failed, in servers and channels of this process.
std::uint64_t failed_handshakes();

}  // namespace outrider

// gRPC's own log lines go to Outrider's log, at debug level: what matters of them comes as a
// Status, and a peer must not be able to fill a terminal.
// Thread rule: once, before the first channel or server. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace outrider {

void take_over_grpc_log();

}  // namespace outrider

// Which target may go on with a text that another one has begun.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "edge_client/failover/failover_options.h"

namespace outrider {

// Whether another stream to the server may do better than the one that ended so.
bool may_pass(const Status& ended);

// Why this device's target and the server's may not go on with each other's text; empty if they
// may.
std::string difference(const FailoverOptions& options, const Opened& server);

}  // namespace outrider

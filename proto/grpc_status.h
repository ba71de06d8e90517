// Converts Outrider's Status to gRPC's and back.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// Every error has a detail that shows that Outrider sent it, not a proxy on the way. retry_after
// becomes google.rpc.RetryInfo, which every gRPC client understands.
grpc::Status to_grpc(const Status& status, std::optional<Duration> retry_after = std::nullopt);

// A code that Outrider does not use becomes kInternal, with its number in the message.
Status from_grpc(const grpc::Status& status);

// How a call ended, for the edge's rules for retries (docs/protocol.md, "What may be retried"):
// INTERNAL, CANCELLED, ABORTED and UNKNOWN without Outrider's detail become UNAVAILABLE, because a
// proxy or the transport sent them. Else as from_grpc().
Status ended_call(const grpc::Status& status);

// The delay that a server attached, by to_grpc() or otherwise; at most one hour.
std::optional<Duration> retry_delay(const grpc::Status& status);

}  // namespace outrider

// Outrider's Status to gRPC's and back, in one place.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// Every error carries a detail by which the other side knows that Outrider spoke, and no proxy on
// the way. retry_after travels as google.rpc.RetryInfo, which every gRPC client understands.
grpc::Status to_grpc(const Status& status, std::optional<Duration> retry_after = std::nullopt);

// A code that Outrider does not use becomes kInternal, its number named in the message.
Status from_grpc(const grpc::Status& status);

// How a call ended, as the edge's rules for retries see it (docs/protocol.md, "What may be
// retried"): INTERNAL, CANCELLED, ABORTED and UNKNOWN that are not Outrider's become UNAVAILABLE,
// for a proxy or the transport spoke. Else as from_grpc().
Status ended_call(const grpc::Status& status);

// The delay that to_grpc() or another honest server attached; at most one hour.
std::optional<Duration> retry_delay(const grpc::Status& status);

}  // namespace outrider

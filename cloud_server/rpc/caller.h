// The identity of a caller: the tenant of its key or certificate.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "cloud_server/admission/authenticator.h"
#include "common/base/request_headers.h"
#include "common/base/status.h"

namespace outrider {

// A peer's address without port, as HTTP has it too. gRPC writes peers as "ipv4:192.0.2.1:50412" or
// "ipv6:%5B2001:db8::1%5D:50412".
std::string host_of(const std::string& peer);

// The call's x-request-id; empty if it is missing or not valid by is_request_id().
std::string request_id_of(const grpc::ServerContextBase& context);

// In which trace the call is; empty: none was named.
TraceHeaders trace_headers_of(const grpc::ServerContextBase& context);

// Identifies the caller of a gRPC call, as identify() of authenticator.h does for HTTP.
Result<Caller> identify(const grpc::ServerContextBase& context, Authenticator* authenticator);

}  // namespace outrider

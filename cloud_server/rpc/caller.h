// The identity of a caller: the tenant of its key or certificate.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "common/base/status.h"

namespace outrider {

struct Caller {
  std::string tenant;                    // empty: no identity is required
  std::shared_ptr<const TenantKey> key;  // null: there is none, or none is required
};

// A peer's address without port, as HTTP has it too. gRPC writes peers as "ipv4:192.0.2.1:50412" or
// "ipv6:%5B2001:db8::1%5D:50412".
std::string host_of(const std::string& peer);

// The call's x-request-id; empty if it is missing or not valid by is_request_id().
std::string request_id_of(const grpc::ServerContextBase& context);

// authenticator: null: no keys are required. UNAUTHENTICATED and RESOURCE_EXHAUSTED as its find();
// PERMISSION_DENIED if key and certificate name different tenants, or if the certificate's tenant
// is not admitted.
Result<Caller> identify(const grpc::ServerContextBase& context, Authenticator* authenticator);

}  // namespace outrider

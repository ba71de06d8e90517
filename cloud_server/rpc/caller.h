// Who makes a call: the tenant of its key or of its certificate.
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
  std::string tenant;                    // empty: nobody was asked
  std::shared_ptr<const TenantKey> key;  // null: none came, or none was asked for
};

// A peer's address alone, as HTTP has it too. gRPC writes peers as "ipv4:192.0.2.1:50412" or
// "ipv6:%5B2001:db8::1%5D:50412".
std::string host_of(const std::string& peer);

// The call's x-request-id; empty if there is none, or one that is_request_id() refuses.
std::string request_id_of(const grpc::ServerContextBase& context);

// authenticator: null: no keys are asked for. UNAUTHENTICATED and RESOURCE_EXHAUSTED as its find();
// PERMISSION_DENIED if key and certificate name different tenants, or the certificate none that may
// come in.
Result<Caller> identify(const grpc::ServerContextBase& context, Authenticator* authenticator);

}  // namespace outrider

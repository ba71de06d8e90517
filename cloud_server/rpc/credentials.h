// What a server shows and asks for when an edge connects.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/credentials/certificates.h"

namespace outrider {

// Plaintext without files; else TLS, whose files are read again when they change: streams that are
// open go on. OfferedTlsFiles keeps them such that they fit each other.
std::shared_ptr<grpc::ServerCredentials> make_server_credentials(const TlsFiles& files);

}  // namespace outrider

// gRPC's connection to a server: its addresses, times and certificates.
//
// Thread rule: free functions, any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "common/base/status.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

// Connects when it is first used; a new channel is a new connection.
std::shared_ptr<grpc::Channel> make_channel(const RemoteOptions& options);

// An error that names the file, if one of TLS cannot be read.
Status check_channel_files(const RemoteOptions& options);

}  // namespace outrider

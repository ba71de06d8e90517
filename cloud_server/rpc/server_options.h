// What an operator may set about the gRPC shell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/credentials/certificates.h"

namespace outrider {

struct RpcServerOptions {
  Address listen;                                    // port 0: any free one
  std::size_t max_waiting_messages = 4096;           // per stream, for a reader that stalls
  Duration open_timeout = std::chrono::seconds(10);  // for a stream's Open to be there
  // From a stream's end to when it is cut, though the peer has not read its last messages.
  Duration farewell_timeout = std::chrono::seconds(10);
  // From the headers of a Measure or Describe to when it is cut, though its request has not come or
  // its reply has not been read: as long as an edge waits for it.
  Duration unary_timeout = std::chrono::seconds(30);
  // Of their requests and replies that are on their way, of one address and of one tenant;
  // eight times as many of all.
  std::size_t max_unary_bytes = 4u << 20;
  std::size_t memory_bytes = 256u << 20;  // gRPC's buffers, all connections together
  int max_streams_per_connection = 64;
  // Of one address (network_of()), on all its connections; 0: no bound.
  std::size_t max_calls_per_peer = 256;
  std::size_t max_calls = 2048;              // of all; 0: no bound
  std::size_t max_connections = 1024;        // of all; 0: no bound
  std::size_t max_connections_per_peer = 0;  // of one address; 0: no bound
  // So long a connection keeps its place without a call that may decode, though all are taken.
  Duration stranger_time = std::chrono::seconds(2);
  // A connection is told to go after so long, and closed after the grace though it has calls, which
  // their edges then begin anew; or when it had no call for so long. 0: never.
  Duration max_connection_age{0};
  Duration max_connection_age_grace{0};
  Duration max_connection_idle{0};
  // Of TLS and HTTP/2's greeting.
  Duration handshake_timeout = std::chrono::seconds(20);
  bool pad_frames = false;       // of every stream, as Open.pad_frames
  std::string description = {};  // DescribeReply; empty: Describe is UNIMPLEMENTED
  TlsFiles tls = {};             // checked when the server starts; none: plaintext
  Duration tls_interval = std::chrono::seconds(10);  // how often the files are looked at
  Authenticator* authenticator = nullptr;  // asks for keys; outlives the server. Null: nobody does
  Tenants* tenants = nullptr;              // whose quotas hold; outlives the server. Null: nobody's
};

}  // namespace outrider

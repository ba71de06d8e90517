// The operator's settings of the gRPC shell. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/serving/credentials/certificates.h"
#include "common/serving/credentials/offered_tls_files.h"
#include "common/serving/tracing/tracer.h"

namespace outrider {

struct RpcServerOptions {
  Address listen;                                    // port 0: any free one
  std::size_t max_waiting_messages = 4096;           // per stream, for a reader that stalls
  Duration open_timeout = std::chrono::seconds(10);  // from a stream's start to its Open
  // From a stream's end until it is cut, if the peer has not read its last messages.
  Duration farewell_timeout = std::chrono::seconds(10);
  // From a complete answer's last message until the stream ends without the edge having closed its
  // side. More than a round trip of any usual link.
  Duration close_timeout = std::chrono::seconds(1);
  // From the headers of a Measure or Describe until it is cut, if its request has not arrived or
  // its reply has not been read: as long as an edge waits for it.
  Duration unary_timeout = std::chrono::seconds(30);
  // Bytes of requests and replies in transit, for one address and for one tenant; eight times as
  // many in total.
  std::size_t max_unary_bytes = 4u << 20;
  std::size_t memory_bytes = 256u << 20;  // gRPC's buffers, all connections together
  int max_streams_per_connection = 64;
  // For one address (network_of()), on all its connections; 0: no bound.
  std::size_t max_calls_per_peer = 256;
  std::size_t max_calls = 2048;              // in total; 0: no bound
  std::size_t max_connections = 1024;        // in total; 0: no bound
  std::size_t max_connections_per_peer = 0;  // of one address; 0: no bound
  // A connection without an authenticated call is not evicted before this age.
  Duration unauthenticated_grace = std::chrono::seconds(2);
  // After max_connection_age a connection is asked to close, and after the grace it is closed;
  // edges then restart their open calls. It is also closed after max_connection_idle without a
  // call. 0: never.
  Duration max_connection_age{0};
  Duration max_connection_age_grace{0};
  Duration max_connection_idle{0};
  // The longest time of TLS and HTTP/2's preface.
  Duration handshake_timeout = std::chrono::seconds(20);
  bool pad_frames = false;       // pads every stream, as Open.pad_frames
  std::string description = {};  // DescribeReply; empty: Describe is UNIMPLEMENTED
  TlsFiles tls = {};             // checked when the server starts; none: plaintext
  Duration tls_interval = OfferedTlsFiles::kInterval;  // how often the files are checked
  Authenticator* authenticator =
      nullptr;                 // checks keys; outlives the server. Null: none are required
  Tenants* tenants = nullptr;  // quotas; outlives the server. Null: none
  Tracer* tracer = nullptr;    // outlives the server; null: nothing is traced
  // Compiles forms for the target's tokenizer; outlives the server. Null: answers have no forms.
  ConstraintCompiler* constraints = nullptr;
};

}  // namespace outrider

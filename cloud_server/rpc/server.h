// The server's gRPC shell: listens, limits, reports health, drains. Verifying is the engine's.
//
//   start  set_serving(false)?  shutdown
//
// Serves outrider.v1.Outrider and grpc.health.v1.Health. Plaintext: the caller of start() has
// decided that the address may be listened on.
//
// Thread rule: the methods from one thread; streams run on gRPC's threads.
// Ownership: engine and fault log outlive the server. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "cloud_server/faults/fault_log.h"
#include "cloud_server/rpc/connection_gate.h"
#include "cloud_server/rpc/server_options.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "common/serving/credentials/offered_tls_files.h"

namespace outrider {

struct RpcServerStats {
  std::uint64_t stalled = 0;     // streams ended because their reader did not read
  std::uint64_t calls_open = 0;  // at present, with or without a session
  ConnectionStats connections;
};

class RpcServer final {
 public:
  // UNAVAILABLE if the address cannot be listened on, with the system's reason.
  static Result<std::unique_ptr<RpcServer>> start(VerifyEngine& engine, FaultLog& faults,
                                                  RpcServerOptions options);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Where it listens, with the port it got.
  const Address& address() const;

  // Its certificate and key, for other servers of this program; null: it speaks plaintext.
  std::shared_ptr<const OfferedTlsFiles> tls() const;

  // Sets what the health service reports.
  void set_serving(bool serving);

  // Lets streams finish for `grace`, then cuts them. Blocks.
  void shutdown(Duration grace);

  RpcServerStats stats() const;

 private:
  struct Parts;
  explicit RpcServer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace outrider

// The server's gRPC shell: listens, limits, reports health, drains. Verifying is the engine's.
//
//   start  set_serving(false)?  shutdown
//
// Serves outrider.v1.Outrider and grpc.health.v1.Health. Plaintext: the caller of start() has
// decided that the address may be listened on.
//
// Thread rule: the methods from one thread; streams run on gRPC's threads.
// Ownership: the engine outlives the server. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/verify/engine.h"

namespace outrider {

struct RpcServerOptions {
  Address listen;                                    // port 0: any free one
  std::size_t max_waiting_messages = 4096;           // per stream, for a reader that stalls
  Duration open_timeout = std::chrono::seconds(10);  // for a stream's Open to be there
  std::size_t memory_bytes = 256u << 20;             // gRPC's buffers, all connections together
  int max_streams_per_connection = 64;
  // Takes lines about peers' faults and our own, from any thread. Empty: they are counted only.
  std::function<void(const std::string&)> log = {};
};

struct RpcServerStats {
  std::uint64_t refused = 0;  // streams ended for a peer's fault
  std::uint64_t stalled = 0;  // of these: the reader did not read
  std::uint64_t failed = 0;   // streams ended for a fault of this side's: a damaged model
};

class RpcServer final {
 public:
  // UNAVAILABLE if the address cannot be listened on, with the system's reason.
  static Result<std::unique_ptr<RpcServer>> start(VerifyEngine& engine, RpcServerOptions options);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Where it listens, with the port it got.
  const Address& address() const;

  // What the health service says.
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

// What all streams of one server share: the engine that decides, limits, counters.
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "cloud_server/faults/fault_log.h"
#include "cloud_server/rpc/call_bounds.h"
#include "cloud_server/rpc/open_calls.h"
#include "cloud_server/rpc/server_options.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/verify/engine.h"

namespace outrider {

// When those may ask again whom the bounds of addresses refuse; nothing: not at all.
inline std::optional<Duration> delay_of(const Status& refusal) {
  if (refusal.code() != StatusCode::kResourceExhausted) return std::nullopt;
  return WrongKeys::kOneIn;
}

class ShellState final {
 public:
  ShellState(VerifyEngine& engine, FaultLog& faults, const RpcServerOptions& options)
      : engine(engine),
        faults(faults),
        max_waiting_messages(options.max_waiting_messages),
        open_timeout(options.open_timeout),
        farewell_timeout(options.farewell_timeout),
        pad_frames(options.pad_frames),
        authenticator(options.authenticator),
        tenants(options.tenants),
        bounds(options.max_calls_per_peer, options.max_calls) {}

  VerifyEngine& engine;
  FaultLog& faults;
  const std::size_t max_waiting_messages;
  const Duration open_timeout;
  const Duration farewell_timeout;
  const bool pad_frames;
  OpenCalls calls;
  Authenticator* const authenticator;  // null: nobody is asked for a key
  Tenants* const tenants;              // null: there are no quotas
  CallBounds bounds;
  std::function<void(const std::string& peer)>
      vouch;  // for one who may decode; set before calls come
  std::atomic<std::uint64_t> stalled{0};
};

}  // namespace outrider

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
#include "common/base/rate_limit.h"
#include "common/base/status.h"
#include "common/verify/engine.h"

namespace outrider {

class ShellState final {
 public:
  ShellState(VerifyEngine& engine, FaultLog& faults, const RpcServerOptions& options)
      : engine(engine),
        faults(faults),
        max_waiting_messages(options.max_waiting_messages),
        open_timeout(options.open_timeout),
        farewell_timeout(options.farewell_timeout),
        unary_timeout(options.unary_timeout),
        pad_frames(options.pad_frames),
        description(options.description),
        authenticator(options.authenticator),
        tenants(options.tenants),
        bounds("open calls", options.max_calls_per_peer, options.max_calls),
        unary_bytes("bytes on their way",
                    options.max_calls_per_peer > 0 ? options.max_unary_bytes : 0,
                    8 * options.max_unary_bytes),
        unary_bytes_of_tenant("bytes on their way", options.max_unary_bytes, 0) {}

  // When those may ask again whom a bound refuses; nothing: not at all.
  std::optional<Duration> delay_of(const Status& refusal) {
    if (refusal.code() != StatusCode::kResourceExhausted) return std::nullopt;
    return spread_delay(WrongKeys::kOneIn, refused_.fetch_add(1, std::memory_order_relaxed));
  }

  VerifyEngine& engine;
  FaultLog& faults;
  const std::size_t max_waiting_messages;
  const Duration open_timeout;
  const Duration farewell_timeout;
  const Duration unary_timeout;
  const bool pad_frames;
  const std::string description;  // what Describe answers
  OpenCalls calls;
  Authenticator* const authenticator;  // null: nobody is asked for a key
  Tenants* const tenants;              // null: there are no quotas
  CallBounds bounds;
  CallBounds unary_bytes;
  CallBounds unary_bytes_of_tenant;
  std::function<void(const std::string& peer)>
      vouch;  // for one who may decode; set before calls come
  std::atomic<std::uint64_t> stalled{0};

 private:
  std::atomic<std::uint64_t> refused_{0};  // for a bound
};

}  // namespace outrider

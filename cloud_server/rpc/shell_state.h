// What all streams of one server share: the engine that decides, limits, counters, the log.
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

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
  ShellState(VerifyEngine& engine, const RpcServerOptions& options)
      : engine(engine),
        max_waiting_messages(options.max_waiting_messages),
        open_timeout(options.open_timeout),
        farewell_timeout(options.farewell_timeout),
        pad_frames(options.pad_frames),
        tenants(options.tenants),
        bounds(options.max_calls_per_peer, options.max_calls),
        log_(options.log) {}

  // A peer's fault: counted always, logged at most once in five seconds.
  void report_peer_error(const std::string& peer, const Status& status) {
    refused.fetch_add(1, std::memory_order_relaxed);
    log_limited(refusals_, "refused " + peer + ": " + status.to_string());
  }

  // A fault of this side's that ended the peer's session. Returns what the peer is told: not the
  // paths, sizes and names that the fault's own words hold, but where the log has them.
  Status report_internal_error(const std::string& peer, const Status& status) {
    const std::uint64_t number = failed.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::string incident = "failure " + std::to_string(number);
    log_limited(failures_, incident + ", " + peer + ": " + status.to_string());
    return Status(status.code(), "the server could not go on; its log says why under " + incident);
  }

  // Why a peer was sent away, in words that are not for it.
  void note_internal(const std::string& peer, const Status& status) {
    log_limited(failures_, peer + ": " + status.to_string());
  }

  // The system has too little of something.
  void report_shortage(const std::string& line) { log_limited(failures_, line); }

  VerifyEngine& engine;
  const std::size_t max_waiting_messages;
  const Duration open_timeout;
  const Duration farewell_timeout;
  const bool pad_frames;
  OpenCalls calls;
  Tenants* const tenants;  // null: nobody is asked for a key
  CallBounds bounds;
  std::function<void(const std::string& peer)>
      vouch;  // for one who may decode; set before calls come
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> stalled{0};
  std::atomic<std::uint64_t> failed{0};

 private:
  void log_limited(RateLimit& limit, std::string line) {
    const std::optional<std::uint64_t> held_back = limit.admit(clock_.now());
    if (!held_back || !log_) return;
    if (*held_back > 0) {
      line += " (and " + std::to_string(*held_back) + " more since the last line)";
    }
    log_(line);
  }

  const std::function<void(const std::string&)> log_;
  SystemClock clock_;
  RateLimit refusals_{std::chrono::seconds(5)};
  RateLimit failures_{std::chrono::seconds(5)};
};

}  // namespace outrider

// What all streams of one server share: the engine that decides, limits, counters, the log.
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/rate_limit.h"
#include "common/base/status.h"
#include "common/verify/engine.h"

namespace outrider {

class ShellState final {
 public:
  // log: takes a finished line, called from any thread; may be empty.
  ShellState(VerifyEngine& engine, std::size_t max_waiting_messages, Duration open_timeout,
             std::function<void(const std::string&)> log)
      : engine(engine),
        max_waiting_messages(max_waiting_messages),
        open_timeout(open_timeout),
        log_(std::move(log)) {}

  // A peer's fault: counted always, logged at most once in five seconds.
  void report_peer_error(const std::string& peer, const Status& status) {
    refused.fetch_add(1, std::memory_order_relaxed);
    log_limited(refusals_, "refused " + peer + ": " + status.to_string());
  }

  // A fault of this side's that ended the peer's session.
  void report_internal_error(const std::string& peer, const Status& status) {
    failed.fetch_add(1, std::memory_order_relaxed);
    log_limited(failures_, "failed " + peer + ": " + status.to_string());
  }

  VerifyEngine& engine;
  const std::size_t max_waiting_messages;
  const Duration open_timeout;
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

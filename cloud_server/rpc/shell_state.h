// The state that all streams of one server share: engine, limits, counters. Thread rule: any
// thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cloud_server/faults/fault_log.h"
#include "cloud_server/rpc/constraint_queue.h"
#include "cloud_server/rpc/server_options.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/rate_limit.h"
#include "common/base/status.h"
#include "common/decoding/verify/scheduling/engine.h"

namespace outrider {

// Limits a resource that peers share, for each peer and in total: open calls, bytes of replies that
// are not read yet.
class CallBounds final {
 public:
  // what: the resource's name in refusals. 0: no bound.
  CallBounds(std::string what, std::size_t of_one, std::size_t in_all)
      : what_(std::move(what)), of_one_(of_one), in_all_(in_all) {}

  // Takes `amount`, above 0; leave() returns the same amount. who: network_of() an address, or a
  // tenant; caller: its name in refusals. RESOURCE_EXHAUSTED: the bound is reached.
  Status enter(const std::string& who, const char* caller, std::size_t amount = 1) {
    const MutexLock lock(mu_);
    if (in_all_ > 0 && all_ + amount > in_all_) {
      return resource_exhausted("this server has as many " + what_ + " as allowed");
    }
    const auto at = used_.find(who);
    if (of_one_ > 0 && (at == used_.end() ? 0 : at->second) + amount > of_one_) {
      return resource_exhausted(std::string(caller) + " has as many " + what_ + " as allowed, " +
                                std::to_string(of_one_));
    }
    used_[who] += amount;
    all_ += amount;
    return {};
  }
  void leave(const std::string& who, std::size_t amount = 1) {
    const MutexLock lock(mu_);
    const auto at = used_.find(who);
    if (at == used_.end()) return;
    all_ -= amount;
    at->second -= amount;
    if (at->second == 0) used_.erase(at);
  }

 private:
  const std::string what_;
  const std::size_t of_one_;
  const std::size_t in_all_;
  Mutex mu_;
  std::map<std::string, std::size_t> used_ OUTRIDER_GUARDED_BY(mu_);
  std::size_t all_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

// The open calls of a server. A call counts until its last alarm has fired, which is later than
// gRPC's shutdown: what calls share lives until wait_for_none() returns.
class OpenCalls final {
 public:
  void add() {
    const MutexLock lock(mu_);
    ++count_;
  }
  void remove() {
    const MutexLock lock(mu_);
    if (--count_ == 0) none_.notify_all();
  }
  std::uint64_t count() const {
    const MutexLock lock(mu_);
    return count_;
  }
  void wait_for_none() {
    const MutexLock lock(mu_);
    while (count_ > 0) none_.wait(mu_);
  }

 private:
  mutable Mutex mu_;
  CondVar none_;
  std::uint64_t count_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

class ShellState final {
 public:
  ShellState(VerifyEngine& engine, FaultLog& faults, const RpcServerOptions& options)
      : engine(engine),
        faults(faults),
        max_waiting_messages(options.max_waiting_messages),
        open_timeout(options.open_timeout),
        farewell_timeout(options.farewell_timeout),
        close_timeout(options.close_timeout),
        unary_timeout(options.unary_timeout),
        pad_frames(options.pad_frames),
        description(options.description),
        authenticator(options.authenticator),
        tenants(options.tenants),
        tracer(options.tracer),
        constraints(options.constraints),
        bounds("open calls", options.max_calls_per_peer, options.max_calls),
        unary_bytes("bytes in transit",
                    options.max_calls_per_peer > 0 ? options.max_unary_bytes : 0,
                    8 * options.max_unary_bytes),
        unary_bytes_of_tenant("bytes in transit", options.max_unary_bytes, 0) {}

  // The retry delay after a refusal for a bound; nothing for other refusals.
  std::optional<Duration> delay_of(const Status& refusal) {
    if (refusal.code() != StatusCode::kResourceExhausted) return std::nullopt;
    return spread_delay(AuthFailureLimiter::kRetryInterval,
                        refused_.fetch_add(1, std::memory_order_relaxed));
  }

  VerifyEngine& engine;
  FaultLog& faults;
  const std::size_t max_waiting_messages;
  const Duration open_timeout;
  const Duration farewell_timeout;
  const Duration close_timeout;
  const Duration unary_timeout;
  const bool pad_frames;
  const std::string description;  // the reply to Describe
  OpenCalls calls;
  Authenticator* const authenticator;  // null: no keys are required
  Tenants* const tenants;              // null: there are no quotas
  Tracer* const tracer;                // null: nothing is traced
  ConstraintQueue constraints;
  CallBounds bounds;
  CallBounds unary_bytes;
  CallBounds unary_bytes_of_tenant;
  std::function<void(const std::string& peer)>
      mark_authenticated;  // called with an authenticated peer; set before the first call
  std::atomic<std::uint64_t> stalled{0};

 private:
  std::atomic<std::uint64_t> refused_{0};  // for a bound
};

}  // namespace outrider

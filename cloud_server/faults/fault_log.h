// Errors of all clients, by cause: a client's fault or this server's. All are counted. A client's
// fault is logged at most once in five seconds; a failure of this server is always logged, with a
// number that the client gets instead of the details.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/rate_limit.h"
#include "common/base/status.h"

namespace outrider {

struct FaultCounts {
  std::uint64_t refused = 0;  // for a fault of the client
  std::uint64_t failed = 0;   // for a fault of this server, such as a damaged model
};

class FaultLog final {
 public:
  using Log = std::function<void(const std::string&)>;

  // log: writes a line, from any thread. Empty: errors are only counted.
  explicit FaultLog(Log log = {}) : log_(std::move(log)) {}

  // A client's fault. who: its address, with the request's id if it has one.
  void refuse(const std::string& who, const Status& status);

  // The engine ended a client's session; `for_the_log` is detail for the log only. Returns the
  // status for the client: for this server's faults without paths, sizes and names, but with the
  // number of the log line.
  [[nodiscard]] Status end(const std::string& who, const Status& status,
                           const std::string& for_the_log);

  // A fault without a client: the system lacks a resource, or a file is not valid.
  void warn(const std::string& line);

  FaultCounts counts() const {
    return {refused_.load(std::memory_order_relaxed), failed_.load(std::memory_order_relaxed)};
  }

 private:
  void log_limited(RateLimit& limit, std::string line);

  const Log log_;
  SystemClock clock_;
  RateLimit refusals_{std::chrono::seconds(5)};
  RateLimit failures_{std::chrono::seconds(5)};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> failed_{0};
};

// The name of a client in the log.
std::string name_in_log(const std::string& peer, const std::string& request_id);

}  // namespace outrider

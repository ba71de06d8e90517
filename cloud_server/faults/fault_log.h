// What went wrong with clients of any kind, and whose fault it was: counted always, logged at most
// once in five seconds except failures, which clients are told the numbers of, and told to the
// client without what is not for it.
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
  std::uint64_t refused = 0;  // for a client's fault
  std::uint64_t failed = 0;   // for one of this side's: a damaged model
};

class FaultLog final {
 public:
  using Log = std::function<void(const std::string&)>;

  // log: takes a line, from any thread. Empty: faults are counted only.
  explicit FaultLog(Log log = {}) : log_(std::move(log)) {}

  // A client's fault. who: its address, with the request's id if it has one.
  void refuse(const std::string& who, const Status& status);

  // How the engine ended a client's session, with what is for the log only. Returns what the client
  // is told: of this side's faults not the paths, sizes and names, but where the log has them.
  [[nodiscard]] Status end(const std::string& who, const Status& status,
                           const std::string& for_the_log);

  // Of no client's: the system has too little of something, or a file does not fit.
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

// A client's name in the log.
std::string name_in_log(const std::string& peer, const std::string& request_id);

}  // namespace outrider

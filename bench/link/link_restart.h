// Asks a link's own thread to begin its profile anew.
//
// Thread rule: ask() from anywhere, take() from the link's thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

class LinkRestart final {
 public:
  struct Request {
    Duration offset{0};      // where in the profile's own time the link stands then
    std::uint64_t seed = 0;  // of jitter and loss from then on
  };

  void ask(const Request& request) {
    const MutexLock lock(mu_);
    request_ = request;
    asked_.store(true, std::memory_order_release);
  }

  // What was asked since the last call; the newest counts. Costs one load if there is nothing.
  std::optional<Request> take() {
    if (!asked_.load(std::memory_order_acquire)) return std::nullopt;
    const MutexLock lock(mu_);
    asked_.store(false, std::memory_order_relaxed);
    return std::exchange(request_, std::nullopt);
  }

 private:
  std::atomic<bool> asked_{false};
  Mutex mu_;
  std::optional<Request> request_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider

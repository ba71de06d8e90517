// A verifier's events, handed from its thread to the one that waits for them.
// Thread rule: sink() from any thread, next() from one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "common/protocol/verifier.h"

namespace outrider {

class EventQueue final {
 public:
  // This must outlive the stream.
  Verifier::EventSink sink() {
    return [this](VerifierEvent event) {
      const std::lock_guard lock(mu_);
      events_.push_back(std::move(event));
      changed_.notify_one();
    };
  }

  // Blocks until there is one. A verifier ends every stream with StreamEnded.
  VerifierEvent next() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return !events_.empty(); });
    VerifierEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<VerifierEvent> events_;
};

}  // namespace outrider

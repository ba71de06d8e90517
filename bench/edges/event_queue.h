// A verifier's events, handed from its thread to the one that waits for them.
// Thread rule: sink() from any thread, next() from one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <utility>

#include "common/base/mutex.h"
#include "common/protocol/verifier.h"

namespace outrider {

class EventQueue final {
 public:
  // This must outlive the stream.
  Verifier::EventSink sink() {
    return [this](FromVerifier event) {
      const MutexLock lock(mu_);
      events_.push_back(std::move(event.event));
      changed_.notify_one();
    };
  }

  // Blocks until there is one. A verifier ends every stream with StreamEnded.
  VerifierEvent next() {
    const MutexLock lock(mu_);
    while (events_.empty()) changed_.wait(mu_);
    VerifierEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<VerifierEvent> events_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider

// The way out of one stream: events go to its owner's function until it is closed, or has carried
// StreamEnded.
//
// Thread rule: any thread; the function is called by one at a time. close() waits for a call that
// runs, so the function must not call it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <variant>

#include "common/base/mutex.h"
#include "common/protocol/verifier.h"

namespace outrider {

class StreamSink final {
 public:
  explicit StreamSink(std::function<void(VerifierEvent)> function)
      : function_(std::move(function)) {}

  void emit(VerifierEvent event) {
    const MutexLock lock(mu_);
    if (closed_) return;
    closed_ = std::holds_alternative<StreamEnded>(event);
    function_(std::move(event));
  }
  // No event comes after this returns.
  void close() {
    const MutexLock lock(mu_);
    closed_ = true;
  }

 private:
  Mutex mu_;
  bool closed_ OUTRIDER_GUARDED_BY(mu_) = false;
  const std::function<void(VerifierEvent)> function_;
};

}  // namespace outrider

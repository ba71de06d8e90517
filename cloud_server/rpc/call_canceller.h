// Cancels a call from an alarm or another thread of ours, outside gRPC's reactions.
//
// gRPC's context is there until OnDone returns, and OnDone may run within TryCancel() itself or
// beside it. So cancel() does nothing once finish() was called, and finish(), which OnDone calls,
// waits for a cancel() of another thread.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <thread>

#include "common/base/mutex.h"

namespace outrider {

class CallCanceller final {
 public:
  void cancel(grpc::CallbackServerContext& context) {
    {
      const MutexLock lock(mu_);
      if (finished_) return;
      cancelling_ = std::this_thread::get_id();
    }
    context.TryCancel();
    const MutexLock lock(mu_);
    cancelling_ = std::thread::id();
    cancelled_.notify_all();
  }

  void finish() {
    const MutexLock lock(mu_);
    finished_ = true;
    while (cancelling_ != std::thread::id() && cancelling_ != std::this_thread::get_id()) {
      cancelled_.wait(mu_);
    }
  }

 private:
  Mutex mu_;
  CondVar cancelled_;
  bool finished_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread::id cancelling_ OUTRIDER_GUARDED_BY(mu_);  // the thread in cancel()
};

}  // namespace outrider

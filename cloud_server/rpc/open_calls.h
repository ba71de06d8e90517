// The calls that a server has now. A call counts until its last alarm has rung, which is later than
// gRPC's shutdown: what calls share lives until wait_for_none() returns.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/mutex.h"

namespace outrider {

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

}  // namespace outrider

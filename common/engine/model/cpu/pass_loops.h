// The parallel loops of a pass. None begins after the pass is abandoned.
//
// Thread rule: one thread calls; the pool's threads work inside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/thread_pool.h"
#include "common/engine/model/model.h"

namespace outrider {

class PassLoops final {
 public:
  // pool outlives this.
  explicit PassLoops(ThreadPool& pool) : pool_(pool) {}

  ThreadPool& pool() { return pool_; }

  // out outlives the pass.
  void begin_pass(const PassOutput& out) { out_ = &out; }

  // ThreadPool::parallel_for(), or nothing once the pass is abandoned.
  template <class Body>
  void run(std::int64_t count, std::int64_t grain, const Body& body) {
    if (!out_->is_abandoned()) pool_.parallel_for(count, grain, body);
  }

 private:
  ThreadPool& pool_;
  const PassOutput* out_ = nullptr;
};

}  // namespace outrider

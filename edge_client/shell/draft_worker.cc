// SPDX-License-Identifier: Apache-2.0
#include "edge_client/shell/draft_worker.h"

#include <utility>

namespace outrider {

DraftWorker::DraftWorker(std::unique_ptr<DraftEngine> engine)
    : engine_(std::move(engine)), thread_([this] { work(); }) {}

DraftWorker::~DraftWorker() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DraftWorker::submit(Job job) {
  {
    const MutexLock lock(mu_);
    OUTRIDER_CHECK(!job_.has_value());
    abandoned_.store(false, std::memory_order_relaxed);
    job_ = std::move(job);
  }
  wake_.notify_one();
}

void DraftWorker::work() {
  while (true) {
    MutexLock lock(mu_);
    while (!stopping_ && !job_.has_value()) wake_.wait(mu_);
    if (!job_.has_value()) return;
    const Job job = *std::exchange(job_, std::nullopt);
    lock.unlock();
    engine_->set_choice(job.choice);
    Result<DraftStepDone> done = engine_->run(job.step, &abandoned_);
    kv_usage_.store(engine_->kv_usage(), std::memory_order_relaxed);
    job.done(std::move(done));
  }
}

}  // namespace outrider

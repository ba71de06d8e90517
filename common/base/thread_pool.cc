// SPDX-License-Identifier: Apache-2.0
#include "common/base/thread_pool.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider {
namespace {

// About 20 to 50 microseconds: longer than the gap between two loops of one pass.
constexpr int kSpins = 4000;

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  OUTRIDER_CHECK(num_threads >= 1);
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mu_);
    stopping_.store(true);
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) {
    body(0, count);
    return;
  }
  job_ = {count, std::max<std::int64_t>(grain, 1), &body};
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1);  // sequentially consistent, paired with sleeping_ below
  if (sleeping_.load() > 0) {
    { std::lock_guard lock(mu_); }
    wake_.notify_all();
  }
  run_part(0);
  for (int spins = 0; pending_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpins) {
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::run_part(int index) {
  const std::int64_t grains = (job_.count + job_.grain - 1) / job_.grain;
  const std::int64_t threads = num_threads();
  const std::int64_t begin = std::min(job_.count, grains * index / threads * job_.grain);
  const std::int64_t end = std::min(job_.count, grains * (index + 1) / threads * job_.grain);
  if (begin < end) (*job_.body)(begin, end);
}

void ThreadPool::work(int index) {
  std::uint64_t seen = 0;
  for (;;) {
    for (int spins = 0; generation_.load(std::memory_order_acquire) == seen && spins < kSpins;
         ++spins) {
      cpu_relax();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mu_);
      sleeping_.fetch_add(1);
      wake_.wait(lock, [&] { return generation_.load() != seen; });
      sleeping_.fetch_sub(1);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load()) return;
    run_part(index);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace outrider

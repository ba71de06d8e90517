// SPDX-License-Identifier: Apache-2.0
#include "common/base/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Workers spin this often before they sleep, about 20 to 200 microseconds. That is longer than the
// gap between two loops of one pass, and a wake-up takes much longer than that gap.
constexpr int kSpins = 4000;

// Parts per thread: enough for the other threads to compensate for one that lost its core for a
// while.
constexpr std::int64_t kPartsPerThread = 8;

constexpr std::uint64_t kNumberOne = std::uint64_t{1} << 32;
constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
constexpr std::uint64_t kInLoop = kOpen - 1;

std::uint64_t number_of(std::uint64_t state) {
  return state / kNumberOne;
}

thread_local bool computes = false;

// Where the system refuses, as a filter of system calls may, the thread stays on its cores and
// computes the same. Logged once.
void keep_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::fprintf(stderr,
               "threads: not pinned to cores, which costs some speed: sched_setaffinity: %s\n",
               errno_message(errno).c_str());
}

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// The cores of the first thread, which is never pinned.
std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(getpid(), sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

void begin_compute_thread() {
  computes = true;
}

ThreadPool::ThreadPool(int num_threads) {
  OUTRIDER_CHECK(num_threads >= 1);
  for (std::size_t i = 1; std::cmp_less(i, num_threads); ++i) {
    workers_.emplace_back([this, i] { work(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const MutexLock lock(mu_);
    stopping_.store(true);
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::keep_to_cores() {
  std::vector<int> cores = usable_cores();
  if (std::cmp_not_equal(cores.size(), num_threads())) return;
  keep_to_core(cores[0]);
  cores_ = std::move(cores);
  kept_to_cores_.store(true);
}

void ThreadPool::run_loop(std::int64_t count, std::int64_t grain, LoopBody body) {
  if (!looked_at_cores_ && computes) {
    looked_at_cores_ = true;
    keep_to_cores();
  }
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t parts = num_threads() * kPartsPerThread;
  const std::int64_t grains = (count + grain - 1) / grain;
  loop_ = {count, (grains + parts - 1) / parts * grain, body};
  next_.store(0, std::memory_order_relaxed);
  const std::uint64_t number = number_of(state_.load(std::memory_order_relaxed)) + 1;
  state_.store(number * kNumberOne | kOpen);  // sequentially consistent, paired with sleeping_
  if (sleeping_.load() > 0) {
    { const MutexLock lock(mu_); }
    wake_.notify_all();
  }
  claim_parts();
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0; (state_.load(std::memory_order_acquire) & kInLoop) > 0; ++spins) {
    if (spins < kSpins) {
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::claim_parts() {
  for (;;) {
    const std::int64_t begin = next_.fetch_add(loop_.part, std::memory_order_relaxed);
    if (begin >= loop_.count) return;
    loop_.body.call(loop_.body.of, begin, std::min(begin + loop_.part, loop_.count));
  }
}

// Enters the current loop if it is open and not yet seen. A closed one counts as seen.
bool ThreadPool::join_loop(std::uint64_t& seen) {
  std::uint64_t state = state_.load(std::memory_order_acquire);
  while (number_of(state) != seen) {
    if ((state & kOpen) == 0) {
      seen = number_of(state);
      return false;
    }
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
      seen = number_of(state);
      return true;
    }
  }
  return false;
}

void ThreadPool::await_loop(std::uint64_t seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (number_of(state_.load(std::memory_order_acquire)) != seen || stopping_.load()) return;
    cpu_relax();
  }
  const MutexLock lock(mu_);
  sleeping_.fetch_add(1);
  while (number_of(state_.load()) == seen && !stopping_.load()) wake_.wait(mu_);
  sleeping_.fetch_sub(1);
}

void ThreadPool::work(std::size_t index) {
  std::uint64_t seen = 0;
  bool kept = false;
  while (!stopping_.load()) {
    if (join_loop(seen)) {
      if (!kept && kept_to_cores_.load()) {
        kept = true;
        keep_to_core(cores_[index]);
      }
      claim_parts();
      state_.fetch_sub(1, std::memory_order_acq_rel);
    } else {
      await_loop(seen);
    }
  }
}

}  // namespace outrider

// A fixed pool that splits one loop at a time over its threads.
//
// Threads claim parts of the loop as they become free, so a slow or descheduled thread does not
// delay the others. One thread computes each index, so results do not depend on the distribution
// (docs/row-invariance.md). Thread rule: one caller at a time; the caller works too, so
// ThreadPool(1) starts no thread.
//
// Linux wakes a thread on the core where it slept or where its waker runs. So two computing threads
// may share a core for milliseconds while another core is idle: after a pause a prompt of 900
// tokens took 1.18 times as long on two cores. A pool with as many threads as cores therefore pins
// each thread to a core, and its caller too if that called begin_compute_thread().
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace outrider {

// The numbers of the cores that the process may use. Empty: the system does not report them.
std::vector<int> usable_cores();

// Declares that the calling thread computes. It must not start threads or processes afterwards:
// they would inherit its core.
void begin_compute_thread();

class ThreadPool final {
 public:
  // num_threads >= 1, the caller included.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) over contiguous parts that cover [0, count) once, part borders at
  // multiples of `grain`; returns when all parts are done. body must not throw.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
    if (count <= 0) return;
    if (workers_.empty() || count <= grain) {
      body(0, count);
      return;
    }
    run_loop(count, grain,
             {[](const void* of, std::int64_t begin, std::int64_t end) {
                (*static_cast<const Body*>(of))(begin, end);
              },
              &body});
  }

 private:
  // A reference to a body, without std::function's allocation: a pass runs hundreds of loops.
  struct LoopBody {
    void (*call)(const void* of, std::int64_t begin, std::int64_t end) = nullptr;
    const void* of = nullptr;
  };
  struct Loop {
    std::int64_t count = 0;
    std::int64_t part = 1;  // indices claimed at once
    LoopBody body;
  };

  void run_loop(std::int64_t count, std::int64_t grain, LoopBody body);
  void keep_to_cores();
  void work(std::size_t index);
  void claim_parts();
  bool join_loop(std::uint64_t& seen);
  void await_loop(std::uint64_t seen);

  std::vector<std::thread> workers_;
  bool looked_at_cores_ = false;  // used by the caller: a compute thread has called
  std::vector<int> cores_;        // one for each thread, the caller's first; empty: not pinned
  std::atomic<bool> kept_to_cores_{false};  // from then on cores_ is constant
  Loop loop_;                               // written by the caller while no worker is in a loop
  std::atomic<std::int64_t> next_{0};       // first index not yet claimed
  // The loop's number (high 32 bits), whether workers may still join it, and how many are in it.
  // The caller closes a loop when every part is claimed, and waits only for workers that joined.
  std::atomic<std::uint64_t> state_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> sleeping_{0};
  Mutex mu_;  // guards no data: no thread falls asleep between reading state_ and waiting
  CondVar wake_;
};

}  // namespace outrider

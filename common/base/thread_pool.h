// A fixed pool that splits one loop at a time over its threads.
//
// The split is static and each index is computed wholly by one thread, so results cannot depend
// on the number of threads (docs/row-invariance.md). Thread rule: one caller at a time; the caller
// works too, so ThreadPool(1) starts no thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace outrider {

class ThreadPool final {
 public:
  // num_threads >= 1, the caller included.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) once per thread over contiguous parts of [0, count), part borders at
  // multiples of `grain`; returns when all are done. body must not throw.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  void work(int index);
  void run_part(int index);

  struct Job {
    std::int64_t count = 0;
    std::int64_t grain = 1;
    const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;
  };

  std::vector<std::thread> workers_;
  Job job_;  // written by the caller before generation_ moves, read by workers after
  // Workers spin on generation_ for a moment before they sleep: a decoding step starts hundreds of
  // loops, each far shorter than a wake-up.
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> sleeping_{0};
  std::mutex mu_;
  std::condition_variable wake_;
};

}  // namespace outrider

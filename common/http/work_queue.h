// Runs slow jobs of an HTTP server on a thread of its own: one job after the other, with addresses
// taking turns.
//
// Bounds: the bytes that jobs hold, in total and for each address; each job counts for at least
// kMinBytes. Thread rule: push() from any thread. The destructor finishes the running job and drops
// the others. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace outrider {

class WorkQueue final {
 public:
  static constexpr std::size_t kMinBytes = 4096;
  struct Bounds {
    std::size_t bytes = std::size_t{16} << 20;
    std::size_t bytes_per_address = std::size_t{4} << 20;
  };
  struct Job {
    std::size_t bytes = 0;
    std::function<void()> run;
  };

  explicit WorkQueue(const Bounds& bounds) : bounds_(bounds), worker_([this] { run(); }) {}
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // RESOURCE_EXHAUSTED if too much is queued; then the job is dropped.
  Status push(const std::string& address, Job job);

 private:
  struct Waiting {
    std::deque<Job> jobs;
    std::size_t bytes = 0;  // of these jobs and of the running one
  };
  void run();

  const Bounds bounds_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::size_t bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;
  std::map<std::string, Waiting> waiting_ OUTRIDER_GUARDED_BY(mu_);
  std::deque<std::string> turns_
      OUTRIDER_GUARDED_BY(mu_);  // addresses with jobs, in the order of their turns
  std::thread worker_;           // last, because it uses the other members
};

}  // namespace outrider

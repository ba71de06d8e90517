// Runs slow jobs of an HTTP server on threads of their own, with groups of clients taking turns.
//
// Short jobs and long ones have threads of their own, so that a short one never waits for the end
// of a long one; the threads of long ones leave the processor to others that want it. A group has
// at most all threads of a kind but one at a time, so that others need not wait for the end of its
// jobs.
//
// Bounds, for jobs of each kind: the bytes that they hold, in total and for each group; each job
// counts for at least kMinBytes. Where the total is reached, the group that holds most gives way:
// its last job is refused, for a job of a group that still holds less with it. Thread rule: push()
// from any thread. The destructor finishes the running jobs and drops the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace outrider {

class WorkQueue final {
 public:
  static constexpr std::size_t kMinBytes = 4096;
  static constexpr std::size_t kLongBytes = std::size_t{32} << 10;  // a job above that is long
  struct Bounds {
    std::size_t bytes = std::size_t{16} << 20;
    std::size_t bytes_per_group = std::size_t{4} << 20;
    std::size_t threads = 2;  // of each kind
  };
  struct Job {
    std::size_t bytes = 0;
    std::function<void()> run;
    // Called instead of run, on the thread of a push(), if the job gives way to another.
    std::function<void(const Status&)> refuse = {};
  };

  explicit WorkQueue(const Bounds& bounds);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // RESOURCE_EXHAUSTED if too much is queued; then the job is dropped. group: whose turn it takes
  // (a tenant, network_of() an address).
  Status push(const std::string& group, Job job);

 private:
  class Kind;

  const std::unique_ptr<Kind> short_;
  const std::unique_ptr<Kind> long_;
};

}  // namespace outrider

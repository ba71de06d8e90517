// SPDX-License-Identifier: Apache-2.0
#include "common/http/work_queue.h"

#include <algorithm>
#include <utility>

namespace outrider {

WorkQueue::~WorkQueue() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

Status WorkQueue::push(const std::string& address, Job job) {
  job.bytes = std::max(job.bytes, kMinBytes);
  const MutexLock lock(mu_);
  Waiting& here = waiting_[address];
  // A single job is always accepted.
  const bool full = bytes_ > 0 && bytes_ + job.bytes > bounds_.bytes;
  const bool full_here = here.bytes > 0 && here.bytes + job.bytes > bounds_.bytes_per_address;
  if (full || full_here) {
    if (here.bytes == 0) waiting_.erase(address);
    return resource_exhausted("too many requests are queued; try again");
  }
  bytes_ += job.bytes;
  here.bytes += job.bytes;
  if (here.jobs.empty()) turns_.push_back(address);
  here.jobs.push_back(std::move(job));
  changed_.notify_all();
  return {};
}

void WorkQueue::run() {
  while (true) {
    std::string address;
    Job job;
    {
      const MutexLock lock(mu_);
      while (!ending_ && turns_.empty()) changed_.wait(mu_);
      if (ending_) return;
      address = std::move(turns_.front());
      turns_.pop_front();
      Waiting& here = waiting_[address];
      job = std::move(here.jobs.front());
      here.jobs.pop_front();
      if (!here.jobs.empty()) turns_.push_back(address);
    }
    job.run();
    job.run = nullptr;
    const MutexLock lock(mu_);
    Waiting& here = waiting_[address];
    here.bytes -= job.bytes;
    bytes_ -= job.bytes;
    if (here.bytes == 0) waiting_.erase(address);
  }
}

}  // namespace outrider

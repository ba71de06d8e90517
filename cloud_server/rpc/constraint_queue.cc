// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/constraint_queue.h"

#include <algorithm>
#include <utility>

namespace outrider {

ConstraintQueue::~ConstraintQueue() {
  std::thread thread;
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

Status ConstraintQueue::add(ConstraintSpec spec, std::string owner, Done done) {
  const MutexLock lock(mu_);
  const auto of_owner = std::ranges::count(waiting_, owner, &Job::owner);
  if (waiting_.size() >= kMaxWaiting || of_owner >= static_cast<std::ptrdiff_t>(kMaxOfOwner)) {
    return resource_exhausted("too many forms wait to be compiled; try again soon");
  }
  waiting_.push_back({std::move(spec), std::move(owner), std::move(done)});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
  return {};
}

// An owner without a number comes first, and of one owner's forms the one that came first.
ConstraintQueue::Job ConstraintQueue::take_next() {
  const auto last = [this](const Job& job) OUTRIDER_REQUIRES(mu_) {
    const auto found = last_.find(job.owner);
    return found == last_.end() ? 0 : found->second;
  };
  const auto next = std::ranges::min_element(waiting_, {}, last);
  Job job = std::move(*next);
  waiting_.erase(next);
  if (waiting_.empty()) {
    last_.clear();
  } else {
    last_[job.owner] = ++compiled_;
  }
  return job;
}

void ConstraintQueue::run() {
  MutexLock lock(mu_);
  while (true) {
    while (waiting_.empty() && !stopping_) changed_.wait(mu_);
    if (waiting_.empty()) return;
    const Job job = take_next();
    lock.unlock();
    job.done(compiler_->compile(job.spec, job.owner));
    lock.lock();
  }
}

}  // namespace outrider

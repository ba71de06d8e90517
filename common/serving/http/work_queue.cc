// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/work_queue.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace outrider {
namespace {

// A thread of this niceness has about a tenth of a core that another thread wants too.
constexpr int kBackgroundNice = 10;
// From Linux 6.12 on: a thread that wakes takes the place of one that asked for a longer slice than
// its own, in nanoseconds. This is the longest that Linux grants.
constexpr std::uint64_t kBackgroundSlice = 100'000'000;

// The structure that sched_setattr(2) takes.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = kBackgroundNice;
  std::uint32_t priority = 0;
  std::uint64_t runtime = kBackgroundSlice;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

// Linux keeps both for each thread. Where the system refuses, as a filter of system calls may, long
// jobs compete with short ones and the model.
void run_in_background() {
  const SchedulingAttributes wanted;
  if (syscall(SYS_sched_setattr, 0, &wanted, 0) == 0) return;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBackgroundNice);
}

Status too_many() {
  return resource_exhausted("too many requests are queued; try again");
}

}  // namespace

// The jobs of one kind, and their threads.
class WorkQueue::Kind final {
 public:
  Kind(const Bounds& bounds, bool in_background) : bounds_(bounds) {
    for (std::size_t i = 0; i < std::max<std::size_t>(bounds_.threads, 1); ++i) {
      threads_.emplace_back([this, in_background] {
        if (in_background) run_in_background();
        run();
      });
    }
  }
  ~Kind();

  Status push(const std::string& group, Job job);

 private:
  struct Group {
    std::deque<Job> waiting;
    std::size_t running = 0;
    std::size_t bytes = 0;  // of both
  };

  void run();
  // The group whose turn it is; end(): no group may run a job now.
  std::deque<std::string>::iterator next_turn() OUTRIDER_REQUIRES(mu_);
  // Drops jobs of groups that hold more than `held` until so many bytes more have room.
  std::vector<Job> make_room(std::size_t bytes, std::size_t held) OUTRIDER_REQUIRES(mu_);

  const Bounds bounds_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::size_t bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;
  std::map<std::string, Group> groups_ OUTRIDER_GUARDED_BY(mu_);
  // Groups with jobs that wait, in the order of their turns.
  std::deque<std::string> turns_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;  // last, because they use the other members
};

WorkQueue::WorkQueue(const Bounds& bounds)
    : short_(std::make_unique<Kind>(bounds, /*in_background=*/false)),
      long_(std::make_unique<Kind>(bounds, /*in_background=*/true)) {}

WorkQueue::~WorkQueue() = default;

Status WorkQueue::push(const std::string& group, Job job) {
  Kind& kind = job.bytes > kLongBytes ? *long_ : *short_;
  return kind.push(group, std::move(job));
}

WorkQueue::Kind::~Kind() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status WorkQueue::Kind::push(const std::string& group, Job job) {
  job.bytes = std::max(job.bytes, kMinBytes);
  std::vector<Job> dropped;
  bool taken = false;
  {
    const MutexLock lock(mu_);
    const auto at = groups_.find(group);
    const std::size_t before = at == groups_.end() ? 0 : at->second.bytes;
    const std::size_t held = before + job.bytes;
    // A single job is always accepted.
    if (before == 0 || held <= bounds_.bytes_per_group) {
      dropped = make_room(job.bytes, held);
      taken = bytes_ == 0 || bytes_ + job.bytes <= bounds_.bytes;
    }
    if (taken) {
      bytes_ += job.bytes;
      Group& own = groups_[group];
      own.bytes = held;
      if (own.waiting.empty()) turns_.push_back(group);
      own.waiting.push_back(std::move(job));
      changed_.notify_one();
    }
  }
  for (const Job& gone : dropped) {
    if (gone.refuse) gone.refuse(too_many());
  }
  return taken ? Status() : too_many();
}

std::vector<WorkQueue::Job> WorkQueue::Kind::make_room(std::size_t bytes, std::size_t held) {
  std::vector<Job> dropped;
  while (bytes_ + bytes > bounds_.bytes) {
    const auto gives = [](const auto& entry) {
      return entry.second.waiting.empty() ? 0 : entry.second.bytes;
    };
    const auto most = std::ranges::max_element(groups_, {}, gives);
    if (most == groups_.end() || gives(*most) <= held) break;
    Group& group = most->second;
    dropped.push_back(std::move(group.waiting.back()));
    group.waiting.pop_back();
    group.bytes -= dropped.back().bytes;
    bytes_ -= dropped.back().bytes;
    if (group.waiting.empty()) std::erase(turns_, most->first);
    if (group.bytes == 0) groups_.erase(most);
  }
  return dropped;
}

std::deque<std::string>::iterator WorkQueue::Kind::next_turn() {
  const std::size_t most = std::max<std::size_t>(bounds_.threads, 2) - 1;
  auto turn = turns_.begin();
  while (turn != turns_.end() && groups_.at(*turn).running >= most) ++turn;
  return turn;
}

void WorkQueue::Kind::run() {
  MutexLock lock(mu_);
  while (true) {
    auto turn = next_turn();
    for (; !ending_ && turn == turns_.end(); turn = next_turn()) changed_.wait(mu_);
    if (ending_) return;
    const std::string name = std::move(*turn);
    turns_.erase(turn);
    Group& group = groups_.at(name);  // stays while it has a job that runs
    Job job = std::move(group.waiting.front());
    group.waiting.pop_front();
    ++group.running;
    if (!group.waiting.empty()) turns_.push_back(name);
    lock.unlock();
    job.run();
    job.run = nullptr;
    job.refuse = nullptr;
    lock.lock();
    --group.running;
    group.bytes -= job.bytes;
    bytes_ -= job.bytes;
    if (group.bytes == 0) groups_.erase(name);
    // Where this end lets a job begin, this thread itself takes it: no other has to wake.
  }
}

}  // namespace outrider

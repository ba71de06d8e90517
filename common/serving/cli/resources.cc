// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/resources.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/posix.h"

namespace outrider {
namespace {

// Threads that wait until they are all there.
class Crowd final {
 public:
  ~Crowd() {
    {
      const MutexLock lock(mu_);
      may_go_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  // Throws std::system_error.
  void add() {
    threads_.emplace_back([this] { stay(); });
  }

 private:
  void stay() {
    const MutexLock lock(mu_);
    while (!may_go_) changed_.wait(mu_);
  }

  Mutex mu_;
  CondVar changed_;
  bool may_go_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Status check_threads(int count) {
  Crowd crowd;
  for (int i = 0; i < count; ++i) {
    try {
      crowd.add();
    } catch (const std::system_error& error) {
      return resource_exhausted(
          "the system lets this process have " + std::to_string(i) + " threads more, and " +
          std::to_string(count) + " are needed: " + errno_message(error.code().value()) +
          ". Remedy: a higher limit of tasks (ulimit -u, systemd's TasksMax, a container's pids "
          "limit) or of memory (ulimit -v), or fewer --threads");
    }
  }
  return {};
}

Status check_descriptors(std::size_t count) {
  std::vector<UniqueFd> open_files;
  while (open_files.size() < count) {
    UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
      return resource_exhausted("this process may open " + std::to_string(open_files.size()) +
                                " files more, and " + std::to_string(count) +
                                " are needed: " + errno_message(errno) +
                                ". Remedy: a higher limit of open files (ulimit -n, systemd's "
                                "LimitNOFILE)");
    }
    open_files.push_back(std::move(file));
  }
  return {};
}

}  // namespace outrider

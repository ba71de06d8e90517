// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/trial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>

namespace outrider {
namespace {

constexpr int kLookEveryMs = 5;  // at the child's memory and time
// A busy machine may give the child a part of a processor only.
constexpr int kWallTimes = 5;
constexpr std::size_t kMaxReport = 4096;

// Ends the child, if it still runs, and lets the system forget it.
class Child final {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    kill(id_, SIGKILL);
    while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The processor time that it has used.
  Duration used() const {
    clockid_t clock = 0;
    timespec time{};
    if (clock_getcpuclockid(id_, &clock) != 0 || clock_gettime(clock, &time) != 0) return {};
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  // Writable memory of its own; 0: it cannot be text.
  std::size_t bytes() const {
    const std::string path = "/proc/" + std::to_string(id_) + "/statm";
    std::FILE* const file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return 0;
    unsigned long size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
    const int read = std::fscanf(file, "%lu %lu %lu %lu %lu %lu", &size, &resident, &shared, &text,
                                 &library, &data);
    std::fclose(file);
    return read == 6 ? data * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
  }

 private:
  const pid_t id_;
};

// The code, then the message.
[[noreturn]] void report(int to, const Status& status) {
  std::string text(1, static_cast<char>(status.code()));
  text += status.message().substr(0, kMaxReport - 1);
  const ssize_t written = write(to, text.data(), text.size());
  _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

Status ended(const char* why) {
  return resource_exhausted(std::string("the form ") + why +
                            ", so it was ended. Remedy: a smaller form, with fewer repeats and "
                            "alternatives");
}

Status reported(int from) {
  char text[kMaxReport];
  const ssize_t length = read(from, text, sizeof(text));
  if (length < 1) return ended("made its compiler fail");
  const auto code = static_cast<StatusCode>(text[0]);
  if (code == StatusCode::kOk) return {};
  return {code, std::string(text + 1, static_cast<std::size_t>(length) - 1)};
}

Status await(const Child& child, int from, const TrialBounds& bounds) {
  const SystemClock clock;
  const TimePoint deadline = clock.now() + kWallTimes * bounds.time;
  const std::size_t at_first = child.bytes();
  while (clock.now() < deadline && child.used() < bounds.time) {
    pollfd event{.fd = from, .events = POLLIN, .revents = 0};
    if (poll(&event, 1, kLookEveryMs) > 0) return reported(from);
    const std::size_t now = child.bytes();
    if (now > at_first && now - at_first > bounds.bytes) return ended("needs too much memory");
  }
  return ended("takes too long to compile");
}

}  // namespace

Status try_in_child(const std::function<Status()>& work, const TrialBounds& bounds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return resource_exhausted("a form's trial: no pipe is left");
  const pid_t id = fork();
  if (id == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive this process
    report(ends[1], work());
  }
  close(ends[1]);
  Status status = resource_exhausted("a form's trial: no process can be made");
  if (id > 0) {
    const Child child(id);
    status = await(child, ends[0], bounds);
  }
  close(ends[0]);
  return status;
}

}  // namespace outrider

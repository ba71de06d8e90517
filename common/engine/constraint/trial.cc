// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/trial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace outrider {
namespace {

constexpr int kLookEveryMs = 5;  // at the child's memory and time
// A busy machine may give the child a part of a processor only.
constexpr int kWallTimes = 5;
constexpr std::size_t kReadBytes = 65536;  // a pipe holds no more

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

// The child's report begins with this; the message, or the work's result, follows.
struct Head {
  std::uint64_t bytes = 0;
  StatusCode code = StatusCode::kOk;
};

[[noreturn]] void report(int to, const Result<std::string>& result) {
  const std::string& text = result.ok() ? *result : result.status().message();
  const Head head{.bytes = text.size(), .code = result.status().code()};
  std::array<iovec, 2> parts = {
      {{const_cast<Head*>(&head), sizeof(head)}, {const_cast<char*>(text.data()), text.size()}}};
  for (iovec& part : parts) {
    while (part.iov_len > 0) {
      const ssize_t written = write(to, part.iov_base, part.iov_len);
      if (written < 0 && errno != EINTR) _exit(1);
      const auto gone = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
      part = {static_cast<char*>(part.iov_base) + gone, part.iov_len - gone};
    }
  }
  _exit(0);
}

Status ended(const char* why) {
  return resource_exhausted(std::string("the form ") + why +
                            ", so it was ended. Remedy: a smaller form, with fewer repeats and "
                            "alternatives");
}

// The report, once it is complete. Its end is not waited for: another process that was forked in
// the same moment may hold the pipe open.
std::optional<Result<std::string>> reported(std::string_view said) {
  Head head;
  if (said.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, said.data(), sizeof(head));
  said.remove_prefix(sizeof(head));
  if (said.size() < head.bytes) return std::nullopt;
  if (head.code == StatusCode::kOk) return std::string(said);
  return Status(head.code, std::string(said));
}

Result<std::string> await(const Child& child, int from, const TrialBounds& bounds) {
  const SystemClock clock;
  const TimePoint deadline = clock.now() + kWallTimes * bounds.time;
  const std::size_t at_first = child.bytes();
  std::string said;
  std::array<char, kReadBytes> piece;
  while (clock.now() < deadline && child.used() < bounds.time) {
    pollfd event{.fd = from, .events = POLLIN, .revents = 0};
    if (poll(&event, 1, kLookEveryMs) > 0) {
      const ssize_t length = read(from, piece.data(), piece.size());
      if (length == 0) return ended("made its compiler fail");
      if (length > 0) said.append(piece.data(), static_cast<std::size_t>(length));
      if (auto report = reported(said)) return *std::move(report);
    }
    const std::size_t now = child.bytes();
    if (now > at_first && now - at_first > bounds.bytes) return ended("needs too much memory");
  }
  return ended("takes too long to compile");
}

}  // namespace

Result<std::string> compute_in_child(const std::function<Result<std::string>()>& work,
                                     const TrialBounds& bounds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return resource_exhausted("a form's trial: no pipe is left");
  const pid_t id = fork();
  if (id == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive this process
    report(ends[1], work());
  }
  close(ends[1]);
  Result<std::string> result = resource_exhausted("a form's trial: no process can be made");
  if (id > 0) {
    const Child child(id);
    result = await(child, ends[0], bounds);
  }
  close(ends[0]);
  return result;
}

}  // namespace outrider

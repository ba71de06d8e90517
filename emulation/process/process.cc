// SPDX-License-Identifier: Apache-2.0
#include "emulation/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/posix.h"
#include "emulation/process/net_namespace.h"

namespace outrider {
namespace {

// While this object lives, programs are started on `core` alone: a child inherits its parent's
// CPUs.
class OnCore final {
 public:
  explicit OnCore(std::optional<int> core) {
    if (!core || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<std::size_t>(*core), &only);
    moved_ = sched_setaffinity(0, sizeof only, &only) == 0;
  }
  ~OnCore() {
    if (moved_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  cpu_set_t before_;
  bool moved_ = false;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return unavailable(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// False at the end of the stream.
bool read_some(int fd, std::string& into) {
  std::array<char, 65536> some;
  const ssize_t got = read(fd, some.data(), some.size());
  if (got < 0) return errno == EINTR;
  into.append(some.data(), static_cast<std::size_t>(got));
  return got > 0;
}

// Reads both streams to their ends; false if time ran out first.
bool read_both(Pipe& out, Pipe& err, FinishedProcess& finished, TimePoint start, TimePoint deadline,
               const std::function<void(std::string_view)>& on_out) {
  const SystemClock clock;
  while (out.read.valid() || err.read.valid()) {
    const double left_ms = to_ms(deadline - clock.now());
    if (left_ms <= 0) return false;
    std::array<pollfd, 2> polled = {{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
    poll(polled.data(), polled.size(), static_cast<int>(std::min(left_ms + 1, 1e6)));
    const std::size_t before = finished.out.size();
    if (polled[0].revents != 0 && !read_some(out.read.get(), finished.out)) out.read.reset();
    if (on_out && finished.out.size() > before) {
      on_out(std::string_view(finished.out).substr(before));
    }
    if (!finished.first_out && !finished.out.empty()) finished.first_out = clock.now() - start;
    if (polled[1].revents != 0 && !read_some(err.read.get(), finished.err)) err.read.reset();
  }
  return true;
}

Status cannot_start(const char* program, int error) {
  return unavailable(std::string("cannot start ") + program + ": " + std::strerror(error));
}

// fork() instead of posix_spawn(), which cannot make the child end with its parent.
Result<pid_t> fork_program(const std::vector<char*>& argv, int out, int err, int in) {
  OUTRIDER_ASSIGN_OR_RETURN(Pipe failure, make_pipe());  // the started program closes it
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return cannot_start(argv[0], errno);
  if (pid == 0) {
    // From here on only what is safe in the child of a program with threads.
    constexpr int kNotStarted = 127;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotStarted);  // the parent ended before prctl()
    if (dup2(out, STDOUT_FILENO) >= 0 && (err < 0 || dup2(err, STDERR_FILENO) >= 0) &&
        (in < 0 || dup2(in, STDIN_FILENO) >= 0)) {
      execve(argv[0], argv.data(), environ);
    }
    const int error = errno;
    static_cast<void>(!write(failure.write.get(), &error, sizeof error));
    _exit(kNotStarted);
  }
  failure.write.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(failure.read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return pid;
  waitpid(pid, nullptr, 0);
  return cannot_start(argv[0], error);
}

}  // namespace

Result<std::string> sibling_program(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return unavailable("the path of this program cannot be read: " + error.message());
  const std::filesystem::path path = self.parent_path() / name;
  if (!std::filesystem::exists(path, error)) {
    return not_found(path.string() + " is not there; build it");
  }
  return path.string();
}

Result<pid_t> spawn_process(const ProcessOptions& options, int out, int err, int in) {
  std::vector<char*> argv{const_cast<char*>(options.program.c_str())};
  for (const std::string& argument : options.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const OnCore on_core(options.core);
  std::optional<InNamespace> inside;
  if (options.network_namespace) {
    OUTRIDER_ASSIGN_OR_RETURN(InNamespace entered, InNamespace::enter(*options.network_namespace));
    inside.emplace(std::move(entered));
  }
  return fork_program(argv, out, err, in);
}

Result<FinishedProcess> run_process(const ProcessOptions& options, Duration timeout,
                                    const std::function<void(std::string_view)>& on_out) {
  OUTRIDER_ASSIGN_OR_RETURN(Pipe out, make_pipe());
  OUTRIDER_ASSIGN_OR_RETURN(Pipe err, make_pipe());
  const TimePoint start = SystemClock().now();
  OUTRIDER_ASSIGN_OR_RETURN(const pid_t pid,
                            spawn_process(options, out.write.get(), err.write.get()));
  out.write.reset();
  err.write.reset();
  FinishedProcess finished;
  const bool in_time = read_both(out, err, finished, start, start + timeout, on_out);
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  rusage usage{};
  while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  finished.peak_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  if (!in_time) {
    return deadline_exceeded(options.program + " did not end within " +
                             std::to_string(static_cast<int>(to_seconds(timeout))) + " s");
  }
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace outrider

// outrider-server as a separate process, as a user starts it. It is killed when the thread that
// started it ends.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "common/decoding/protocol/messages.h"
#include "tests/support/paths.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {

// A program's limits of file descriptors: at first, and after raising.
struct DescriptorLimits {
  rlim_t first;
  rlim_t most;
};

// A running outrider-server; stdout and stderr in one.
class RunningServer final {
 public:
  explicit RunningServer(std::vector<std::string> arguments,
                         std::optional<DescriptorLimits> descriptors = {},
                         const std::string& program = "outrider-server") {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), bin_dir() + "/" + program);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the test, also if that is killed
      if (getppid() != parent) _exit(127);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      if (descriptors) {
        const rlimit limit{descriptors->first, descriptors->most};
        setrlimit(RLIMIT_NOFILE, &limit);
      }
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~RunningServer() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    wait();
    close(out_);
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  // Reads until `wanted` has come, or to the end.
  const std::string& read_until(const std::string& wanted) {
    std::array<char, 1024> some;
    while (wanted.empty() || text_.find(wanted) == std::string::npos) {
      const ssize_t got = read(out_, some.data(), some.size());
      if (got <= 0) break;
      text_.append(some.data(), static_cast<std::size_t>(got));
    }
    return text_;
  }
  const std::string& read_all() { return read_until(""); }

  Address address() {
    const std::string& text = read_until("ready");
    const std::size_t at = text.find("127.0.0.1:");
    EXPECT_NE(at, std::string::npos) << text;
    return *parse_address(text.substr(at, text.find_first_of(" \n", at) - at));
  }

  void signal(int number) const { kill(pid_, number); }
  pid_t pid() const { return pid_; }

  // The exit code.
  int wait() {
    int status = 0;
    if (pid_ > 0) {
      waitpid(pid_, &status, 0);
      pid_ = 0;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  int out_ = -1;
  std::string text_;
};

inline void expect_failure(const std::vector<std::string>& arguments, int code,
                           const testing::Matcher<std::string>& output) {
  RunningServer program(arguments);
  EXPECT_THAT(program.read_all(), output);
  EXPECT_EQ(program.wait(), code);
}

inline Open null_open() {
  Open open;
  open.tokenizer_hash = "null";
  open.prefix = {1};
  open.end_position = 2000;
  open.policy.pass_policy = PassPolicy::kEager;
  return open;
}

// The address after this word of the start block.
inline Address page_of(const std::string& text, const std::string& what) {
  const std::size_t at = text.find("http://", text.find("  " + what + " "));
  EXPECT_NE(at, std::string::npos) << text;
  return *parse_address(text.substr(at + 7, text.find('\n', at) - at - 7));
}

}  // namespace outrider

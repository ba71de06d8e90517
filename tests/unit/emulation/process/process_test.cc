// SPDX-License-Identifier: Apache-2.0
#include "emulation/process/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "common/base/posix.h"
#include "common/base/thread_pool.h"

namespace outrider {
namespace {

using testing::HasSubstr;

Result<FinishedProcess> shell(const std::string& script, Duration timeout,
                              std::optional<int> core = std::nullopt) {
  return run_process({"/bin/sh", {"-c", script}, core}, timeout);
}

TEST(ProcessTest, BothStreamsAndTheExitCodeComeBack) {
  const auto done = shell("echo out; echo err >&2; exit 3", std::chrono::minutes(1));
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->out, "out\n");
  EXPECT_EQ(done->err, "err\n");
  EXPECT_EQ(done->exit_code, 3);
}

TEST(ProcessTest, ALotOnBothStreamsDoesNotStall) {
  const auto done =
      shell("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero", std::chrono::minutes(1));
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->out.size(), 1000000u);
  EXPECT_EQ(done->err.size(), 1000000u);
}

TEST(ProcessTest, TheFirstOutputIsTimedAndErrorsAreNone) {
  const auto late = shell("echo err >&2; sleep 0.1; echo out; sleep 1", std::chrono::minutes(1));
  ASSERT_TRUE(late.ok() && late->first_out);
  EXPECT_GE(to_ms(*late->first_out), 100);
  EXPECT_LT(to_ms(*late->first_out), 1100);
  EXPECT_FALSE(shell("echo err >&2", std::chrono::minutes(1))->first_out);
}

TEST(ProcessTest, OneThatTakesTooLongIsKilled) {
  const auto done = run_process({"/bin/sleep", {"100"}, std::nullopt}, from_ms(50));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.status().code(), StatusCode::kDeadlineExceeded);
}

TEST(ProcessTest, ASignalIsToldFromAnExit) {
  EXPECT_EQ(shell("kill -9 $$", std::chrono::minutes(1))->exit_code, 128 + 9);
}

TEST(ProcessTest, ItRunsOnTheGivenCoreAndWeStayWhereWeWere) {
  const std::vector<int> cores = usable_cores();
  ASSERT_FALSE(cores.empty());
  const auto done =
      shell("grep Cpus_allowed_list /proc/self/status", std::chrono::minutes(1), cores.back());
  ASSERT_TRUE(done.ok());
  EXPECT_THAT(done->out, HasSubstr("\t" + std::to_string(cores.back()) + "\n"));
  EXPECT_EQ(usable_cores(), cores);
}

// Whether a program ends when the process that started it is killed.
bool ends_with_its_killed_parent() {
  std::array<int, 2> ends;
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child = spawn_process({"/bin/sleep", {"1000"}}, STDERR_FILENO, -1);
    const pid_t pid = child.ok() ? *child : 0;
    static_cast<void>(!write(write_end.get(), &pid, sizeof pid));
    while (true) pause();
  }
  write_end.reset();
  pid_t program = 0;
  EXPECT_EQ(read(read_end.get(), &program, sizeof program), static_cast<ssize_t>(sizeof program));
  EXPECT_GT(program, 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  const std::string exe = "/proc/" + std::to_string(program) + "/exe";
  for (int i = 0; i < 500; ++i) {
    struct stat ignored {};
    if (stat(exe.c_str(), &ignored) != 0) return true;  // gone, or nobody has asked how it ended
    SystemClock().sleep_until(SystemClock().now() + std::chrono::milliseconds(10));
  }
  kill(program, SIGKILL);
  return false;
}

TEST(ProcessTest, AKilledParentLeavesNoProgramBehind) {
  EXPECT_TRUE(ends_with_its_killed_parent());
}

TEST(ProcessTest, AProgramThatIsNotThereIsNamed) {
  const auto done = run_process({"/nowhere/x", {}, std::nullopt}, from_ms(1000));
  EXPECT_THAT(done.status().message(), HasSubstr("cannot start /nowhere/x: No such file"));
  EXPECT_THAT(sibling_program("no-such-program").status().message(), HasSubstr("no-such-program"));
}

}  // namespace
}  // namespace outrider

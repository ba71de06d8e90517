// Real packets over TUN devices in network namespaces; skipped where these are not permitted.
// SPDX-License-Identifier: Apache-2.0
#include "emulation/link/tun_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bench/probe/datagram_probe.h"
#include "bench/probe/tcp_probe.h"
#include "emulation/path/link_profile.h"
#include "emulation/path/link_spec.h"
#include "emulation/process/process.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;

class TunLinkTest : public testing::Test {
 protected:
  void start(const std::string& spec) {
    auto link = TunLink::start(*parse_link(spec), 1);
    if (!link.ok() && link.status().code() == StatusCode::kFailedPrecondition) {
      GTEST_SKIP() << link.status().message();
    }
    ASSERT_TRUE(link.ok()) << link.status().to_string();
    link_ = *std::move(link);
  }

  RoundTrips probe(int count) const {
    const TimePoint start = link_->forwarder().start_time();
    std::vector<Duration> times;
    const Duration first = SystemClock().now() - start + milliseconds(50);
    for (int i = 0; i < count; ++i) times.push_back(first + i * milliseconds(5));
    auto measured = probe_round_trips(*link_, start, times);
    EXPECT_TRUE(measured.ok()) << measured.status().to_string();
    return measured.ok() ? *std::move(measured) : RoundTrips{};
  }

  std::unique_ptr<TunLink> link_;
};

std::string network_of(const std::string& process) {
  return std::filesystem::read_symlink("/proc/" + process + "/ns/net").string();
}

TEST_F(TunLinkTest, DatagramsTakeTheDelayBothWays) {
  start("ethernet+delay=10ms");
  if (IsSkipped()) return;
  const RoundTrips measured = probe(50);
  EXPECT_EQ(arrived(measured.ms).size(), 50u);
  EXPECT_THAT(arrived(measured.ms), Each(Ge(20)));
  EXPECT_GT(link_->traffic().up, 50u * kProbeBytes - 1);
  EXPECT_STREQ(link_->kind(), "emulated");
}

TEST_F(TunLinkTest, LossAndDuplicatesAreSeen) {
  start("ethernet+up.loss=50%+down.duplicate=100%");
  if (IsSkipped()) return;
  const RoundTrips measured = probe(200);
  const std::size_t back = arrived(measured.ms).size();
  EXPECT_GT(back, 50u);
  EXPECT_LT(back, 150u);
  EXPECT_NEAR(static_cast<double>(link_->traffic().down),
              2 * static_cast<double>(back) * kProbeBytes, 10 * kProbeBytes);
  EXPECT_NEAR(static_cast<double>(link_->counts().up.lost), 200.0 - static_cast<double>(back), 5);
  EXPECT_NEAR(static_cast<double>(link_->counts().down.duplicated), static_cast<double>(back), 5);
}

TEST_F(TunLinkTest, OfflineCarriesNothing) {
  start("offline");
  if (IsSkipped()) return;
  EXPECT_TRUE(arrived(probe(5).ms).empty());
  EXPECT_EQ(link_->traffic().up, 0u);
}

TEST_F(TunLinkTest, TheRateBoundsWhatArrives) {
  start("ethernet+rate=4mbit+queue=16kb");
  if (IsSkipped()) return;
  const TimePoint start = link_->forwarder().start_time();
  const Duration from = SystemClock().now() - start + milliseconds(50);
  const auto flood = flood_link(link_->edge_side(), link_->server_side(), start,
                                {.bit_per_s = 8e6, .from = from, .length = seconds(1)}, seconds(1));
  ASSERT_TRUE(flood.ok()) << flood.status().to_string();
  const double bytes = flood->bytes_between({}, from + seconds(3));
  EXPECT_GT(bytes, 0.5 * 4e6 / 8);
  EXPECT_LE(bytes, 1.05 * 4e6 / 8 + 16 * 1024);
}

TEST_F(TunLinkTest, TcpGoesOverIt) {
  start("ethernet+delay=5ms+rate=20mbit+loss=1%");
  if (IsSkipped()) return;
  const auto measured = probe_tcp(*link_, {.round_trips = 10, .bulk = milliseconds(400)});
  ASSERT_TRUE(measured.ok()) << measured.status().to_string();
  EXPECT_THAT(measured->round_trips_ms, Each(Ge(10)));
  // Only that the rate is limited: without a limit the link carries gigabits. ImpairedPath's tests
  // and 'outrider-bench link' test how exactly the rate is kept; over 400 ms a pause of this
  // process alone would change the result.
  EXPECT_GT(measured->down_mbit_s, 0.1);
  EXPECT_LT(measured->down_mbit_s, 40);
}

TEST_F(TunLinkTest, ItsTimeBeginsAnew) {
  start("ethernet+silent=1000s");
  if (IsSkipped()) return;
  EXPECT_EQ(arrived(probe(5).ms).size(), 5u);
  link_->begin_again(seconds(2000), 1);
  EXPECT_TRUE(arrived(probe(5).ms).empty());
  link_->begin_again(Duration{0}, 1);
  EXPECT_EQ(arrived(probe(5).ms).size(), 5u);
}

TEST_F(TunLinkTest, LatenessIsCounted) {
  start("ethernet+delay=3ms");
  if (IsSkipped()) return;
  probe(20);
  std::uint64_t packets = 0;
  for (const std::uint64_t count : link_->forwarder().lateness().counts()) packets += count;
  EXPECT_EQ(packets, 40u);
}

TEST_F(TunLinkTest, ProgramsRunInTheirNamespaceAndWeStayInOurs) {
  start("ethernet");
  if (IsSkipped()) return;
  const std::string ours = network_of("self");
  ProcessOptions options{"/bin/readlink", {"/proc/self/ns/net"}};
  options.network_namespace = link_->server_side().network_namespace;
  const auto in_server = run_process(options, seconds(10));
  ASSERT_TRUE(in_server.ok()) << in_server.status().to_string();
  options.network_namespace = link_->edge_side().network_namespace;
  const auto in_edge = run_process(options, seconds(10));
  ASSERT_TRUE(in_edge.ok());
  EXPECT_THAT(in_server->out, HasSubstr("net:["));
  EXPECT_NE(in_server->out, in_edge->out);
  EXPECT_NE(in_server->out, ours + "\n");
  EXPECT_EQ(network_of("self"), ours);
}

// Waits for a process that another one had started.
bool ends_soon(pid_t pid) {
  const TimePoint last = SystemClock().now() + seconds(10);
  while (SystemClock().now() < last) {
    struct stat ignored {};
    if (stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &ignored) != 0) return true;
    SystemClock().sleep_until(SystemClock().now() + milliseconds(10));
  }
  return false;
}

TEST(TunRightsTest, WithoutRightsItSaysWhatItNeeds) {
#ifdef OUTRIDER_SANITIZED
  GTEST_SKIP() << "the sanitizers do not start threads in a forked child";
#endif
  const pid_t child = fork();
  if (child == 0) {
    const bool dropped = setuid(65534) == 0 || geteuid() != 0;
    const auto link = TunLink::start(*parse_link("ethernet"), 1);
    const bool refused = !link.ok() && link.status().code() == StatusCode::kFailedPrecondition &&
                         link.status().message().find("needs root") != std::string::npos;
    _exit(dropped && refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(TunLinkTest, AKilledBenchLeavesNoProgramBehind) {
  start("ethernet");
  if (IsSkipped()) return;
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t bench = fork();
  if (bench == 0) {
    ProcessOptions options{"/bin/sleep", {"1000"}};
    options.network_namespace = link_->server_side().network_namespace;
    const auto child = spawn_process(options, STDERR_FILENO, -1);
    const pid_t pid = child.ok() ? *child : 0;
    [[maybe_unused]] const ssize_t put = write(write_end.get(), &pid, sizeof pid);
    while (true) pause();
  }
  pid_t program = 0;
  ASSERT_EQ(read(read_end.get(), &program, sizeof program), static_cast<ssize_t>(sizeof program));
  ASSERT_GT(program, 0);
  kill(bench, SIGKILL);
  waitpid(bench, nullptr, 0);
  EXPECT_TRUE(ends_soon(program));
}

}  // namespace
}  // namespace outrider

// outrider-server as its monitors see it: probes, metrics, a supervisor.
// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/server_program.h"
#include "tests/unit/common/engine/model/test_directory.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ServerProgram, APassThatHangsEndsTheProcessForItsSupervisorAndFreesItsEdges) {
  SystemClock clock;
  RunningServer program(
      {"--model", "null:", "--port", "0", "--pace-pass-ms", "600000", "--pass-limit", "1"}, {},
      "outrider-lab-server");
  TestEdge edge(program.address());
  edge.open(null_open());
  EXPECT_EQ(edge.await<Opened>().limits.pass_limit, std::chrono::seconds(1));
  const TimePoint opened = clock.now();
  const Status status = edge.finish();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("a pass hangs"));
  EXPECT_LT(clock.now() - opened, std::chrono::seconds(3)) << "the limit and two seconds";
  EXPECT_EQ(program.wait(), 75);
}

TEST(ServerProgram, TellsItsHealthVersionAndMetrics) {
  RunningServer program(
      {"--model", "null:", "--port", "0", "--http-port", "0", "--metrics-port", "0"});
  const std::string start = program.read_until("ready  ");
  const Address health = page_of(start, "health");
  EXPECT_THAT(http_get(health, "/health/live"), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(health, "/health/ready"), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(health, "/version"),
              testing::AllOf(HasSubstr("\"model\":\"null\""), HasSubstr("\"fingerprint\":\""),
                             HasSubstr("\"arithmetic_id\":\"")));
  EXPECT_THAT(http_get(health, "/secret"), HasSubstr("HTTP/1.1 404"));
  TestEdge edge(program.address());
  edge.open(null_open());
  EXPECT_EQ(edge.finish(), Status());
  const Address metrics = page_of(start, "metrics");
  std::string told;
  EXPECT_TRUE(eventually([&] {
    told = http_get(metrics, "/metrics");
    return told.find("finished_reason=\"length\"} 1") != std::string::npos;
  }));
  EXPECT_THAT(told, AllOf(HasSubstr("outrider_num_requests_running{model_name=\"null\"} 0"),
                          HasSubstr("outrider_generation_tokens_total{model_name=\"null\"} 1999"),
                          HasSubstr("outrider_time_to_first_token_seconds_bucket"),
                          HasSubstr("outrider_inter_token_latency_seconds_count{model_name="
                                    "\"null\"} 1998"),
                          HasSubstr("outrider_connections_open{model_name=\"null\"}"),
                          HasSubstr("finished_reason=\"length\"} 1")));
}

// A supervisor's socket, as systemd has one.
class NotifySocket final {
 public:
  NotifySocket() : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_.path() + "/notify";
    std::copy(path.begin(), path.end(), address.sun_path);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~NotifySocket() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  std::string next() {
    std::array<char, 256> text;
    const ssize_t got = recv(fd_, text.data(), text.size(), 0);
    return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : "nothing came";
  }

 private:
  const TestDirectory folder_;
  int fd_;
};

TEST(ServerProgram, TellsItsSupervisorThatItIsReadyAliveAndStopping) {
  NotifySocket supervisor;
  RunningServer program({"--model", "null:", "--port", "0"});
  EXPECT_EQ(supervisor.next(), "READY=1");
  EXPECT_EQ(supervisor.next(), "WATCHDOG=1");
  EXPECT_EQ(supervisor.next(), "WATCHDOG=1");
  program.signal(SIGTERM);
  std::string last = supervisor.next();
  if (last == "WATCHDOG=1") last = supervisor.next();
  EXPECT_EQ(last, "STOPPING=1");
  EXPECT_EQ(program.wait(), 0);
}

}  // namespace
}  // namespace outrider

// outrider-server as a user starts it, with a model that does no work.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <deque>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "common/exits/adapters.h"
#include "common/model/loader/loader.h"
#include "tests/support/paths.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"
#include "tests/unit/common/http/http_client.h"
#include "tests/unit/common/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// How many file descriptors a program may have: at first, and if it asks for more.
struct DescriptorLimits {
  rlim_t first;
  rlim_t most;
};

// A running outrider-server; stdout and stderr in one.
class Program final {
 public:
  explicit Program(std::vector<std::string> arguments,
                   std::optional<DescriptorLimits> descriptors = {}) {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), bin_dir() + "/outrider-server");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
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
  ~Program() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    wait();
    close(out_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Reads until this has come, or the end.
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

void expect_failure(const std::vector<std::string>& arguments, int code,
                    const testing::Matcher<std::string>& output) {
  Program program(arguments);
  EXPECT_THAT(program.read_all(), output);
  EXPECT_EQ(program.wait(), code);
}

Open null_open() {
  Open open;
  open.tokenizer_hash = "null";
  open.prefix = {1};
  open.end_position = 2000;
  open.policy.pass_policy = PassPolicy::kEager;
  return open;
}

TEST(ServerProgram, SaysWhatItServesAndWhere) {
  Program program({"--model", "null:77", "--port", "0"});
  EXPECT_THAT(program.read_until("ready"),
              AllOf(HasSubstr("model"), HasSubstr("vocabulary 77"), HasSubstr("fingerprint"),
                    HasSubstr("listening    127.0.0.1:")));
  EXPECT_GT(program.address().port, 0);
}

TEST(ServerProgram, ListensOnALiteralOfIpv6) {
  Program program({"--model", "null:", "--host", "::1", "--port", "0"});
  const std::string& text = program.read_until("ready");
  if (text.find("Cannot assign") != std::string::npos) GTEST_SKIP() << "there is no IPv6 here";
  const std::size_t at = text.find("[::1]:");
  ASSERT_NE(at, std::string::npos) << text;
  TestEdge edge(*parse_address(text.substr(at, text.find('\n', at) - at)));
  edge.open(null_open());
  EXPECT_EQ(edge.finish(), Status());
}

TEST(ServerProgram, RefusesPortsAndHostsWithAReason) {
  expect_failure({"--model", "null:", "--port", "70000"}, 2, HasSubstr("70000"));
  expect_failure({"--model", "null:", "--port", "0", "--host", "0.0.0.0"}, 2,
                 HasSubstr("--insecure"));
  expect_failure({"--model", "null:0"}, 2, HasSubstr("must be 1 to"));
  expect_failure({"--model", "/no/such/model"}, 1, HasSubstr("/no/such/model"));
  expect_failure({}, 2, HasSubstr("--model"));
}

// A model directory without adapters.
const std::string kPlain = source_dir() + "/models/demo-draft";

ModelInfo info_of(const std::string& directory) {
  LoadOptions options;
  options.directory = directory;
  options.threads = 1;
  return (*load_model(options))->info();
}

TEST(ServerProgram, WithoutAdaptersItServesAndSaysThatThereAreNoExits) {
  Program program({"--model", kPlain, "--port", "0", "--threads", "1"});
  EXPECT_THAT(program.read_until("ready"), HasSubstr("exits        none: the model has no"));
  EXPECT_GT(program.address().port, 0);
}

TEST(ServerProgram, SaysAfterWhichLayersItReports) {
  const TestDirectory adapters;
  const std::int32_t layers[] = {1, 2};
  ASSERT_TRUE(save_adapters(adapters.path(), random_adapters(info_of(kPlain), layers, 4, 1)).ok());
  for (const auto& [exits, shown] :
       {std::pair("auto", "after layers 1, 2"), std::pair("all", "after layers 1, 2"),
        std::pair("2", "after layers 2"), std::pair("none", "none (--exits none)")}) {
    Program program({"--model", kPlain, "--port", "0", "--threads", "1", "--adapters",
                     adapters.path(), "--exits", exits});
    EXPECT_THAT(program.read_until("ready"), HasSubstr("exits        " + std::string(shown)));
  }
}

TEST(ServerProgram, RefusesAdaptersThatDoNotFitWithAReason) {
  const TestDirectory adapters;
  const std::vector<std::string> start = {"--model", kPlain,       "--port",
                                          "0",       "--adapters", adapters.path()};
  const auto with = [&](const char* exits) {
    std::vector<std::string> arguments = start;
    arguments.insert(arguments.end(), {"--exits", exits});
    return arguments;
  };
  expect_failure(start, 1, HasSubstr("adapters.json: no such file"));
  const std::int32_t layers[] = {1};
  ModelInfo info = info_of(kPlain);
  ASSERT_TRUE(save_adapters(adapters.path(), random_adapters(info, layers, 4, 1)).ok());
  expect_failure(with("2"), 2, HasSubstr("no adapter after layer 2; these have one: 1"));
  expect_failure(with("some"), 2, HasSubstr("must be auto, none, all"));
  info.fingerprint = std::string(64, '0');
  ASSERT_TRUE(save_adapters(adapters.path(), random_adapters(info, layers, 4, 1)).ok());
  expect_failure(start, 1, HasSubstr("Remedy: `outrider-train exits` for this target"));
  expect_failure({"--model", "null:", "--exits", "all"}, 2, HasSubstr("no layers to exit from"));
  expect_failure({"--model", kPlain, "--exits", "all"}, 1, HasSubstr("adapters.json"));
}

TEST(ServerProgram, APassThatHangsEndsTheProcessForItsSupervisorAndFreesItsEdges) {
  SystemClock clock;
  Program program(
      {"--model", "null:", "--port", "0", "--pace-pass-ms", "600000", "--pass-limit", "1"});
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

// The address behind this word of the start block.
Address page_of(const std::string& text, const std::string& what) {
  const std::size_t at = text.find("http://", text.find("  " + what + " "));
  EXPECT_NE(at, std::string::npos) << text;
  return *parse_address(text.substr(at + 7, text.find('\n', at) - at - 7));
}

// A certificate of its own, for this machine.
TlsFiles make_certificate(const TestDirectory& folder) {
  TlsFiles files{
      .cert = folder.path() + "/c.pem", .key = folder.path() + "/c.key", .client_ca = {}};
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -addext "
      "subjectAltName=IP:127.0.0.1 -days 2 -keyout " +
      files.key + " -out " + files.cert + " 2>/dev/null && chmod 600 " + files.key;
  EXPECT_EQ(std::system(command.c_str()), 0);
  return files;
}

TEST(ServerProgram, TellsItsHealthVersionAndMetrics) {
  Program program({"--model", "null:", "--port", "0", "--http-port", "0", "--metrics-port", "0"});
  const std::string start = program.read_until("ready  ");
  const Address health = page_of(start, "health");
  EXPECT_THAT(http_get(health, "/health/live"), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(health, "/health/ready"), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(health, "/version"), HasSubstr("\"model\":\"null\""));
  EXPECT_THAT(http_get(health, "/secret"), HasSubstr("404"));
  TestEdge edge(program.address());
  edge.open(null_open());
  EXPECT_EQ(edge.finish(), Status());
  const Address metrics = page_of(start, "metrics");
  std::string told;
  for (int i = 0; i < 200 && told.find("finished_reason=\"length\"} 1") == std::string::npos; ++i) {
    usleep(10'000);
    told = http_get(metrics, "/metrics");
  }
  EXPECT_THAT(told, AllOf(HasSubstr("outrider_num_requests_running{model_name=\"null\"} 0"),
                          HasSubstr("outrider_generation_tokens_total{model_name=\"null\"} 1999"),
                          HasSubstr("outrider_time_to_first_token_seconds_bucket"),
                          HasSubstr("outrider_inter_token_latency_seconds_count{model_name="
                                    "\"null\"} 1998"),
                          HasSubstr("outrider_connections_open{model_name=\"null\"}"),
                          HasSubstr("finished_reason=\"length\"} 1")));
}

TEST(ServerProgram, MetricsBeyondThisMachineWantAKeyThatMayReadThem) {
  expect_failure({"--model", "null:", "--metrics-port", "0", "--metrics-host", "0.0.0.0"}, 2,
                 AllOf(HasSubstr("--metrics-host 0.0.0.0"), HasSubstr("--token-file")));
  const TestDirectory folder;
  const std::string file = folder.path() + "/tokens";
  const auto new_key = [&](const std::string& tenant) {
    Program made({"token", "new", tenant, "--token-file", file});
    const std::string said = made.read_all();
    return said.substr(said.find("or-"), 67);
  };
  const std::string robot = new_key("robot-7");
  const std::string prometheus = new_key("prometheus");
  std::ifstream made(file);
  std::string lines(std::istreambuf_iterator<char>(made), {});
  lines.insert(lines.find_last_not_of('\n') + 1, " read-metrics");
  std::ofstream(file) << lines;
  Program program({"--model", "null:", "--port", "0", "--metrics-port", "0", "--metrics-host",
                   "0.0.0.0", "--token-file", file});
  Address metrics = page_of(program.read_until("ready  "), "metrics");
  EXPECT_EQ(metrics.host, "0.0.0.0");
  metrics.host = "127.0.0.1";
  EXPECT_THAT(http_get(metrics, "/metrics"), HasSubstr("401"));
  // What a robot's key would show is of all tenants.
  EXPECT_THAT(http_get(metrics, "/metrics", "Authorization: Bearer " + robot + "\r\n"),
              AllOf(HasSubstr("401"), HasSubstr("read-metrics")));
  EXPECT_THAT(http_get(metrics, "/metrics", "Authorization: Bearer " + prometheus + "\r\n"),
              HasSubstr("outrider_num_requests_running"));
}

TEST(ServerProgram, CountsStrangersWhoFailInTlssGreetingOrAtAKey) {
  const TestDirectory folder;
  const TlsFiles tls = make_certificate(folder);
  const std::string file = folder.path() + "/tokens";
  EXPECT_EQ(Program({"token", "new", "alice", "--token-file", file}).wait(), 0);
  Program program({"--model", "null:", "--port", "0", "--metrics-port", "0", "--http-port", "0",
                   "--tls-cert", tls.cert, "--tls-key", tls.key, "--token-file", file});
  const Address metrics = page_of(program.read_until("ready  "), "metrics");
  RawSocket plain(program.address());
  plain.send(std::string(64, 'x'));
  plain.read_until_closed();
  TestEdge edge(RemoteOptions{.server = program.address(), .tls_ca = tls.cert, .token = "or-x"});
  edge.open(null_open());
  EXPECT_EQ(edge.finish().code(), StatusCode::kUnauthenticated);
  const std::string labels = "{model_name=\"null\"} ";
  EXPECT_THAT(
      http_get(metrics, "/metrics"),
      AllOf(HasSubstr("outrider_tls_handshakes_failed_total" + labels + "1"),
            HasSubstr("outrider_grpc_errors_total" + labels),
            HasSubstr("outrider_keys_refused_total{model_name=\"null\",front=\"grpc\"} 1")));
}

TEST(ServerProgram, ABadPriceFileIsRefusedAtTheStart) {
  expect_failure({"--model", "null:", "--port", "0", "--price-file", "/no/such.toml"}, 1,
                 HasSubstr("/no/such.toml"));
  const TestDirectory folder;
  const std::string path = folder.path() + "/prices.toml";
  std::ofstream(path) << "date = \"2026-01-31\"\n[api]\ninput = 1\n";
  expect_failure({"--model", "null:", "--port", "0", "--price-file", path}, 2,
                 HasSubstr("[api] lacks 'output'"));
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
  Program program({"--model", "null:", "--port", "0"});
  EXPECT_EQ(supervisor.next(), "READY=1");
  EXPECT_EQ(supervisor.next(), "WATCHDOG=1");
  EXPECT_EQ(supervisor.next(), "WATCHDOG=1");
  program.signal(SIGTERM);
  std::string last = supervisor.next();
  if (last == "WATCHDOG=1") last = supervisor.next();
  EXPECT_EQ(last, "STOPPING=1");
  EXPECT_EQ(program.wait(), 0);
}

TEST(ServerProgram, AHungPassFailsTheLivenessProbe) {
  Program program({"--model", "null:", "--port", "0", "--http-port", "0", "--pace-pass-ms", "60000",
                   "--pass-limit", "1"});
  const Address health = page_of(program.read_until("ready  "), "health");
  TestEdge edge(program.address());
  edge.open(null_open());
  edge.await<Opened>();
  std::string live;
  for (int i = 0; i < 300 && live.find("503") == std::string::npos; ++i) {
    usleep(10'000);
    live = http_get(health, "/health/live");
    if (live.empty()) break;  // the process has ended
  }
  EXPECT_EQ(program.wait(), 75);
}

TEST(ServerProgram, BeyondThisMachineItWantsTlsAndKeys) {
  expect_failure({"--model", "null:", "--host", "0.0.0.0"}, 2, HasSubstr("--tls-cert"));
  const TestDirectory folder;
  const TlsFiles tls = make_certificate(folder);
  expect_failure(
      {"--model", "null:", "--host", "0.0.0.0", "--tls-cert", tls.cert, "--tls-key", tls.key}, 2,
      HasSubstr("--token-file"));
}

TEST(ServerProgram, MakesKeysAndReadsTheirFileAgainOnSighup) {
  const TestDirectory folder;
  const std::string file = folder.path() + "/tokens";
  Program first({"token", "new", "alice", "--token-file", file});
  std::string key = first.read_all();
  key = key.substr(key.find("or-"), 67);
  EXPECT_EQ(first.wait(), 0);
  Program server({"--model", "null:", "--port", "0", "--token-file", file});
  const Address address = server.address();
  const auto asks = [&](const std::string& token) {
    TestEdge edge(RemoteOptions{.server = address, .token = token});
    edge.open(null_open());
    return edge.finish().code();
  };
  EXPECT_EQ(asks(key), StatusCode::kOk);
  EXPECT_EQ(asks("or-other"), StatusCode::kUnauthenticated);
  Program second({"token", "new", "bob", "--token-file", file});
  std::string bob = second.read_all();
  bob = bob.substr(bob.find("or-"), 67);
  EXPECT_EQ(asks(bob), StatusCode::kUnauthenticated) << "not read yet";
  server.signal(SIGHUP);
  server.read_until("keys=2");
  EXPECT_EQ(asks(bob), StatusCode::kOk);
  expect_failure({"token", "new", "a b"}, 2, HasSubstr("letters, digits"));
}

TEST(ServerProgram, RefusesTooLittleMemoryForOneSessionWithTheRemedy) {
  expect_failure({"--model", kPlain, "--port", "0", "--threads", "1", "--kv-cache-memory", "1K"}, 2,
                 AllOf(HasSubstr("--kv-cache-memory 1K"), HasSubstr("less than one session")));
  expect_failure({"--model", kPlain, "--port", "0", "--threads", "1", "--kv-cache-memory", "lots"},
                 2, HasSubstr("must be auto, or bytes like 500M, 12G"));
}

TEST(ServerProgram, MaxModelLenLowersTheContextThatASessionMayUse) {
  Program program({"--model", "null:", "--port", "0", "--max-model-len", "40"});
  EXPECT_THAT(program.read_until("ready"), HasSubstr("context      40 tokens"));
  TestEdge edge(program.address());
  edge.open(null_open());  // asks for 2000
  EXPECT_EQ(edge.await<Opened>().limits.max_positions, 40);
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.answer().size(), 39u);
}

TEST(ServerProgram, RefusesAContextThatTheModelDoesNotHaveWithBothNumbers) {
  for (const char* bad : {"0", "-1", "1025"}) {
    expect_failure({"--model", kPlain, "--port", "0", "--threads", "1", "--max-model-len", bad}, 2,
                   AllOf(HasSubstr(bad), HasSubstr("1024"), HasSubstr("--max-model-len")));
  }
  expect_failure({"--model", "null:", "--max-model-len", "65537"}, 2,
                 AllOf(HasSubstr("65537"), HasSubstr("65536")));
}

void expect_serves(const Address& address) {
  TestEdge edge(address);
  edge.open(null_open());
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.answer().size(), 1999u);
}

// Many shells start programs with few descriptors and let them have more.
TEST(ServerProgram, ConnectionsHeldOpenBeyondTheFirstLimitHarmNobody) {
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &own), 0);
  if (own.rlim_max < 512) GTEST_SKIP() << "this machine allows " << own.rlim_max << " descriptors";
  Program program({"--model", "null:", "--port", "0"}, DescriptorLimits{64, own.rlim_max});
  const Address address = program.address();
  {
    std::deque<RawSocket> held;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(held.emplace_back(address).connected());
    expect_serves(address);
  }
  expect_serves(address);
}

void expect_tells_and_recovers(rlim_t descriptors) {
  Program program({"--model", "null:", "--port", "0"}, DescriptorLimits{descriptors, descriptors});
  const Address address = program.address();
  {
    std::deque<RawSocket> held;
    for (int i = 0; i < 100; ++i) held.emplace_back(address);
    EXPECT_THAT(program.read_until("Too many open files"),
                AllOf(HasSubstr("warning"), HasSubstr("no connection can be taken: Too many")));
  }
  Status status = unavailable("not tried");
  for (int i = 0; i < 100 && status.code() == StatusCode::kUnavailable; ++i) {
    TestEdge edge(address);
    edge.open(null_open());
    status = edge.finish();
    usleep(20'000);
  }
  EXPECT_EQ(status, Status());
}

// Where gRPC 1.51 accepts itself, it accepts nobody any more after this (CVE-2023-4785). As a
// connection takes two descriptors, the last one is left over at one of these limits.
TEST(ServerProgram, WithoutDescriptorsItSaysWhyAndAcceptsAgainAfterTheStorm) {
  expect_tells_and_recovers(64);
  expect_tells_and_recovers(65);
}

TEST(ServerProgram, ATakenPortEndsItWithTheRemedy) {
  Program first({"--model", "null:", "--port", "0"});
  const std::string port = std::to_string(first.address().port);
  expect_failure({"--model", "null:", "--port", port}, 1,
                 AllOf(HasSubstr("Address already in use"), HasSubstr("another host or port")));
}

TEST(ServerProgram, SigtermLetsSessionsFinishAndExitsWithZero) {
  Program program({"--model", "null:", "--port", "0"});
  TestEdge edge(program.address());
  edge.open(null_open());
  edge.await<Verdict>();  // and pauses, as nothing is acknowledged
  program.signal(SIGTERM);
  EXPECT_EQ(edge.await<Notice>().kind, Notice::Kind::kReconnectSoon);
  const Status ended = edge.finish();
  EXPECT_TRUE(ended.ok()) << ended.to_string();
  EXPECT_EQ(edge.answer().size(), 1999u);
  EXPECT_EQ(program.wait(), 0);
}

TEST(ServerProgram, ASecondSignalCutsWhatIsLeft) {
  Program program({"--model", "null:", "--port", "0"});
  TestEdge edge(program.address());
  edge.open(null_open());
  edge.await<Verdict>();
  program.signal(SIGTERM);
  edge.await<Notice>();
  program.signal(SIGTERM);
  EXPECT_EQ(edge.finish().code(), StatusCode::kUnavailable);
  EXPECT_EQ(program.wait(), 0);
}

TEST(ServerProgram, TheShutdownTimeoutCutsWhatIsLeft) {
  Program program({"--model", "null:", "--port", "0", "--shutdown-timeout", "0.1"});
  TestEdge edge(program.address());
  edge.open(null_open());
  edge.await<Verdict>();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
}

}  // namespace
}  // namespace outrider

// Clients without a key, and many connections, at outrider-server.
// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <filesystem>
#include <fstream>

#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/server_program.h"
#include "tests/unit/common/engine/model/test_directory.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST(ServerProgram, MetricsBeyondThisMachineWantAKeyThatMayReadThem) {
  expect_failure({"--model", "null:", "--metrics-port", "0", "--metrics-host", "0.0.0.0"}, 2,
                 AllOf(HasSubstr("--metrics-host 0.0.0.0"), HasSubstr("--token-file")));
  const TestDirectory folder;
  const std::string file = folder.path() + "/tokens";
  const auto new_key = [&](const std::string& tenant) {
    RunningServer made({"token", "new", tenant, "--token-file", file});
    const std::string said = made.read_all();
    return said.substr(said.find("or-"), 67);
  };
  const std::string robot = new_key("robot-7");
  const std::string prometheus = new_key("prometheus");
  std::ifstream made(file);
  std::string lines(std::istreambuf_iterator<char>(made), {});
  lines.insert(lines.find_last_not_of('\n') + 1, " read-metrics");
  std::ofstream(file) << lines;
  RunningServer program({"--model", "null:", "--port", "0", "--metrics-port", "0", "--metrics-host",
                         "0.0.0.0", "--token-file", file});
  Address metrics = page_of(program.read_until("ready  "), "metrics");
  EXPECT_EQ(metrics.host, "0.0.0.0");
  metrics.host = "127.0.0.1";
  EXPECT_THAT(http_get(metrics, "/metrics"), HasSubstr("HTTP/1.1 401"));
  // A key that reads metrics shows the metrics of all tenants.
  EXPECT_THAT(http_get(metrics, "/metrics", "Authorization: Bearer " + robot + "\r\n"),
              AllOf(HasSubstr("HTTP/1.1 401"), HasSubstr("read-metrics")));
  EXPECT_THAT(http_get(metrics, "/metrics", "Authorization: Bearer " + prometheus + "\r\n"),
              HasSubstr("outrider_num_requests_running"));
}

TEST(ServerProgram, CountsFailedTlsHandshakesAndWrongKeys) {
  const TestDirectory folder;
  const TlsFiles tls = make_certificate(folder);
  const std::string file = folder.path() + "/tokens";
  EXPECT_EQ(RunningServer({"token", "new", "alice", "--token-file", file}).wait(), 0);
  RunningServer program({"--model", "null:", "--port", "0", "--metrics-port", "0", "--http-port",
                         "0", "--tls-cert", tls.cert, "--tls-key", tls.key, "--token-file", file});
  const Address metrics = page_of(program.read_until("ready  "), "metrics");
  RawSocket plain(program.address());
  plain.send(std::string(64, 'x'));
  plain.read_until_closed();
  program.read_until("does not begin with TLS");
  RawSocket broken(program.address());
  broken.send("\x16\x03" + std::string(64, 'x'));
  broken.read_until_closed();
  TestEdge edge(RemoteOptions{.server = program.address(), .tls_ca = tls.cert, .token = "or-x"});
  edge.open(null_open());
  EXPECT_EQ(edge.finish().code(), StatusCode::kUnauthenticated);
  const std::string labels = "{model_name=\"null\"} ";
  EXPECT_THAT(
      http_get(metrics, "/metrics"),
      AllOf(HasSubstr("outrider_tls_handshakes_failed_total" + labels + "1"),
            HasSubstr("outrider_calls_refused_total" + labels +
                      "2"),  // includes the call with that key
            HasSubstr("outrider_grpc_errors_total" + labels),
            HasSubstr("outrider_keys_refused_total{model_name=\"null\",front=\"grpc\"} 1")));
}

TEST(ServerProgram, BeyondThisMachineItWantsTlsAndKeys) {
  expect_failure({"--model", "null:", "--host", "0.0.0.0"}, 2, HasSubstr("--tls-cert"));
  const TestDirectory folder;
  const TlsFiles tls = make_certificate(folder);
  expect_failure(
      {"--model", "null:", "--host", "0.0.0.0", "--tls-cert", tls.cert, "--tls-key", tls.key}, 2,
      HasSubstr("--token-file"));
}

TEST(ServerProgram, MakesKeysAndReadsTheirFileAgainByItselfAndOnSighup) {
  const TestDirectory folder;
  const std::string file = folder.path() + "/tokens";
  RunningServer first({"token", "new", "alice", "--token-file", file});
  std::string key = first.read_all();
  key = key.substr(key.find("or-"), 67);
  EXPECT_EQ(first.wait(), 0);
  RunningServer server({"--model", "null:", "--port", "0", "--token-file", file});
  const Address address = server.address();
  const auto asks = [&](const std::string& token) {
    TestEdge edge(RemoteOptions{.server = address, .token = token});
    edge.open(null_open());
    return edge.finish().code();
  };
  EXPECT_EQ(asks(key), StatusCode::kOk);
  EXPECT_EQ(asks("or-other"), StatusCode::kUnauthenticated);
  RunningServer second({"token", "new", "bob", "--token-file", file});
  std::string bob = second.read_all();
  bob = bob.substr(bob.find("or-"), 67);
  server.read_until("keys=2");
  EXPECT_EQ(asks(bob), StatusCode::kOk);
  std::ofstream(file, std::ios::app) << "certain certificate\n";
  server.signal(SIGHUP);
  server.read_until("keys=3");
  expect_failure({"token", "new", "a b"}, 2, HasSubstr("letters, digits"));
}

// Kubernetes mounts a Secret this way: FILE -> ..data/FILE, and a change redirects ..data to
// another folder.
TEST(ServerProgram, KeysBehindLinksThatTurnAreReadAgain) {
  const TestDirectory folder;
  const auto key_in = [&](const std::string& name) {
    std::filesystem::create_directory(folder.path(name));
    RunningServer made({"token", "new", "alice", "--token-file", folder.path(name) + "/tokens"});
    const std::string said = made.read_all();
    EXPECT_EQ(made.wait(), 0);
    return said.substr(said.find("or-"), 67);
  };
  const std::string before = key_in("first");
  const std::string after = key_in("second");
  std::ofstream(folder.path("second") + "/tokens", std::ios::app) << "certain certificate\n";
  std::filesystem::create_symlink("first", folder.path("..data"));
  std::filesystem::create_symlink("..data/tokens", folder.path("tokens"));
  RunningServer server({"--model", "null:", "--port", "0", "--token-file", folder.path("tokens")});
  const Address address = server.address();
  const auto asks = [&](const std::string& token) {
    TestEdge edge(RemoteOptions{.server = address, .token = token});
    edge.open(null_open());
    return edge.finish().code();
  };
  EXPECT_EQ(asks(before), StatusCode::kOk);
  std::filesystem::create_symlink("second", folder.path("..new"));
  std::filesystem::rename(folder.path("..new"), folder.path("..data"));
  server.read_until("keys=2");
  EXPECT_EQ(asks(after), StatusCode::kOk);
  EXPECT_EQ(asks(before), StatusCode::kUnauthenticated);
  std::filesystem::remove(folder.path("..data"));
  server.read_until("the keys stay as they were");
  EXPECT_EQ(asks(after), StatusCode::kOk);
}

void expect_serves(const Address& address) {
  TestEdge edge(address);
  edge.open(null_open());
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.answer().size(), 1999u);
}

// Many shells start programs with a low limit of descriptors that may be raised.
TEST(ServerProgram, ConnectionsHeldOpenBeyondTheFirstLimitHarmNobody) {
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &own), 0);
  if (own.rlim_max < 512) GTEST_SKIP() << "this machine allows " << own.rlim_max << " descriptors";
  RunningServer program({"--model", "null:", "--port", "0"}, DescriptorLimits{64, own.rlim_max});
  const Address address = program.address();
  {
    std::deque<RawSocket> held;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(held.emplace_back(address).connected());
    expect_serves(address);
  }
  expect_serves(address);
}

void expect_tells_and_recovers(rlim_t descriptors) {
  RunningServer program({"--model", "null:", "--port", "0"},
                        DescriptorLimits{descriptors, descriptors});
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

// gRPC 1.51's own acceptor never accepts again after this (CVE-2023-4785). A connection takes two
// descriptors, so at one of these limits one descriptor is left over.
TEST(ServerProgram, WithoutDescriptorsItSaysWhyAndAcceptsAgainAfterTheStorm) {
  expect_tells_and_recovers(64);
  expect_tells_and_recovers(65);
}

}  // namespace
}  // namespace outrider

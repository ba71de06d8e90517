// The number of connections, and their lifetime. SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "cloud_server/rpc/connection_gate.h"
#include "proto/byte_buffer.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

class ConnectionTest : public ServerTest {
 protected:
  // Waits until the server has exactly so many open.
  void await_open(std::uint64_t wanted) {
    EXPECT_TRUE(eventually([&] { return server_->stats().connections.open == wanted; }))
        << server_->stats().connections.open << " of " << wanted;
  }
  void await_refused(std::uint64_t wanted) {
    EXPECT_TRUE(eventually([&] { return server_->stats().connections.refused >= wanted; }));
    EXPECT_EQ(server_->stats().connections.refused, wanted);
  }
};

class BoundedConnectionTest : public ConnectionTest {
 protected:
  static constexpr std::size_t kMost = 10;
  BoundedConnectionTest() {
    rpc_options_.max_connections = kMost;
    rpc_options_.unauthenticated_grace = std::chrono::hours(1);
  }
};

TEST_F(BoundedConnectionTest, BeyondTheBoundConnectionsAreClosedAtOnceAndOthersGoOn) {
  await_open(1);  // the bystander's, who goes on to the end
  std::deque<RawSocket> held;
  for (std::size_t i = 0; i < 3 * kMost; ++i) EXPECT_TRUE(held.emplace_back(address()).connected());
  await_refused(2 * kMost + 1);
  await_open(kMost);
  EXPECT_EQ(held.back().read_until_closed(), "");
  TestEdge late(address());
  late.open(honest_open());
  EXPECT_EQ(late.finish().code(), StatusCode::kUnavailable) << "which edges try again";
  held.clear();
  await_open(1);
  expect_serves();
}

class UnauthenticatedTest : public BoundedConnectionTest {
 protected:
  UnauthenticatedTest() { rpc_options_.unauthenticated_grace = Duration{0}; }
};

TEST_F(UnauthenticatedTest, AnAuthenticatedConnectionEvictsTheOldestAndIsNotEvicted) {
  std::deque<RawSocket> unauthenticated;
  for (std::size_t i = 1; i < kMost; ++i) unauthenticated.emplace_back(address());
  await_open(kMost);  // the bystander's is one
  TestEdge late(address());
  late.open(honest_open());
  late.await<Opened>();
  unauthenticated.front().read_until_closed();
  await_refused(1);
  for (std::size_t i = 0; i < 3 * kMost; ++i) unauthenticated.emplace_back(address());
  await_refused(1 + 3 * kMost);
  await_open(kMost);
  EXPECT_TRUE(late.finish().ok()) << "no unauthenticated connection replaces an authenticated one";
}

class BoundedPeerTest : public ConnectionTest {
 protected:
  BoundedPeerTest() { rpc_options_.max_connections_per_peer = 4; }
};

TEST_F(BoundedPeerTest, OneAddressHasItsBound) {
  std::deque<RawSocket> held;
  for (int i = 0; i < 8; ++i) held.emplace_back(address());
  await_refused(5);
  await_open(4);
  held.clear();
  await_open(1);
  expect_serves();
}

// --- bytes before authentication -----------------------------------------------------------------

// A gate alone; the connections that it passes on stay open and are not read.
class GateTest : public testing::Test {
 protected:
  void open(std::uint64_t of_one, std::uint64_t of_all) {
    ConnectionGateOptions options;
    options.listen = {"127.0.0.1", 0};
    options.max_unauthenticated_bytes = of_one;
    options.max_unauthenticated_bytes_total = of_all;
    gate_ = *ConnectionGate::listen(options);
    gate_->open([this](int, int connection) {
      const std::lock_guard lock(mu_);
      handed_.emplace_back(connection);
    });
  }
  // A connection that has sent so many bytes, all of them received.
  RawSocket& unauthenticated(std::size_t bytes) {
    RawSocket& socket = sockets_.emplace_back(Address{"127.0.0.1", gate_->port()});
    EXPECT_TRUE(socket.send("PRI" + std::string(bytes - 3, 'x')));
    return socket;
  }
  void await_refused(std::uint64_t wanted) {
    EXPECT_TRUE(eventually([&] { return gate_->stats().refused >= wanted; }));
    clock_.sleep_until(clock_.now() + std::chrono::milliseconds(300));  // and no more of them
    EXPECT_EQ(gate_->stats().refused, wanted);
  }

  SystemClock clock_;
  std::mutex mu_;
  std::vector<UniqueFd> handed_;
  std::deque<RawSocket> sockets_;
  std::unique_ptr<ConnectionGate> gate_;
};

TEST_F(GateTest, AnUnauthenticatedConnectionAboveItsBytesIsClosed) {
  open(60'000, 1 << 30);
  unauthenticated(50'000);
  RawSocket& greedy = unauthenticated(70'000);
  await_refused(1);
  EXPECT_EQ(greedy.read_until_closed(), "");
  EXPECT_EQ(gate_->stats().open, 1u);
}

TEST_F(GateTest, AboveTheTotalBytesTheConnectionWithMostIsClosed) {
  open(60'000, 100'000);
  unauthenticated(40'000);
  RawSocket& most = unauthenticated(50'000);
  unauthenticated(45'000);
  await_refused(1);
  EXPECT_EQ(most.read_until_closed(), "");
  EXPECT_EQ(gate_->stats().open, 2u);
}

TEST_F(GateTest, AnAuthenticatedConnectionMaySendMore) {
  open(60'000, 100'000);
  RawSocket& known = unauthenticated(50'000);
  while (gate_->stats().open < 1) std::this_thread::yield();
  gate_->mark_authenticated("ipv4:127.0.0.1:" + std::to_string(known.port()));
  EXPECT_TRUE(known.send(std::string(50'000, 'x')));
  unauthenticated(50'000);
  await_refused(0);
  EXPECT_EQ(gate_->stats().open, 2u);
}

class ShortHandshakeTest : public ConnectionTest {
 protected:
  ShortHandshakeTest() { rpc_options_.handshake_timeout = std::chrono::seconds(1); }
};

TEST_F(ShortHandshakeTest, APeerThatNeverGreetsIsDropped) {
  RawSocket silent(address());
  silent.read_until_closed();
  RawSocket two_letters(address());
  EXPECT_TRUE(two_letters.send("PR"));
  two_letters.read_until_closed();
  RawSocket half(address());
  EXPECT_TRUE(half.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));  // and no SETTINGS
  half.read_until_closed();
  await_open(1);
}

class IdleConnectionTest : public ConnectionTest {
 protected:
  IdleConnectionTest() { rpc_options_.max_connection_idle = std::chrono::milliseconds(300); }
};

TEST_F(IdleConnectionTest, AConnectionWithoutCallsEndsAndOneWithASessionStays) {
  RawSocket idle(address());
  EXPECT_TRUE(idle.send(http2::hello()));
  EXPECT_NE(idle.read_until_closed(), "");
  await_open(1);  // the bystander's session is paused, for longer than the limit
}

class AgedConnectionTest : public ConnectionTest {
 protected:
  AgedConnectionTest() {
    rpc_options_.max_connection_age = std::chrono::seconds(1);  // time for an answer on any machine
    rpc_options_.max_connection_age_grace = std::chrono::milliseconds(500);
  }
};

// An edge continues over a new connection (tests/e2e/connections_test.py).
TEST_F(AgedConnectionTest, AfterItsAgeAndGraceAConnectionEndsWithWhatMayBeRetried) {
  VerifierEvent event = bystander_->next();
  while (!std::holds_alternative<StreamEnded>(event)) event = bystander_->next();
  EXPECT_EQ(std::get<StreamEnded>(event).status.code(), StatusCode::kUnavailable);
  bystander_.reset();
  await_open(0);
  expect_serves();
}

}  // namespace
}  // namespace outrider

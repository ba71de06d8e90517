// How many connections there may be, and for how long. SPDX-License-Identifier: Apache-2.0
#include <deque>

#include "proto/byte_buffer.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

class ConnectionTest : public ServerTest {
 protected:
  // Until the server has so many open, and no more.
  void await_open(std::uint64_t wanted) {
    const TimePoint give_up = clock_.now() + kPatience;
    while (server_->stats().connections.open != wanted && clock_.now() < give_up) {
      clock_.sleep_until(clock_.now() + std::chrono::milliseconds(2));
    }
    EXPECT_EQ(server_->stats().connections.open, wanted);
  }
  void await_refused(std::uint64_t wanted) {
    const TimePoint give_up = clock_.now() + kPatience;
    while (server_->stats().connections.refused < wanted && clock_.now() < give_up) {
      clock_.sleep_until(clock_.now() + std::chrono::milliseconds(2));
    }
    EXPECT_EQ(server_->stats().connections.refused, wanted);
  }
};

class BoundedConnectionTest : public ConnectionTest {
 protected:
  static constexpr std::size_t kMost = 10;
  BoundedConnectionTest() {
    rpc_options_.max_connections = kMost;
    rpc_options_.stranger_time = std::chrono::hours(1);
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

class StrangersTest : public BoundedConnectionTest {
 protected:
  StrangersTest() { rpc_options_.stranger_time = Duration{0}; }
};

TEST_F(StrangersTest, WhoIsKnownTakesThePlaceOfTheOneThatWasThereLongestAndKeepsIt) {
  std::deque<RawSocket> strangers;
  for (std::size_t i = 1; i < kMost; ++i) strangers.emplace_back(address());
  await_open(kMost);  // the bystander's is one
  TestEdge late(address());
  late.open(honest_open());
  late.await<Opened>();
  strangers.front().read_until_closed();
  await_refused(1);
  for (std::size_t i = 0; i < 3 * kMost; ++i) strangers.emplace_back(address());
  await_refused(1 + 3 * kMost);
  await_open(kMost);
  EXPECT_TRUE(late.finish().ok()) << "no stranger takes the place of one who is known";
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

class ShortHandshakeTest : public ConnectionTest {
 protected:
  ShortHandshakeTest() { rpc_options_.handshake_timeout = std::chrono::milliseconds(300); }
};

TEST_F(ShortHandshakeTest, APeerThatNeverGreetsIsDropped) {
  RawSocket silent(address());
  silent.read_until_closed();
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
  await_open(1);  // the bystander's session is paused, and has been for longer
}

class AgedConnectionTest : public ConnectionTest {
 protected:
  AgedConnectionTest() {
    rpc_options_.max_connection_age = std::chrono::milliseconds(300);
    rpc_options_.max_connection_age_grace = std::chrono::milliseconds(200);
  }
};

// An edge goes on over a new connection (tests/e2e/connections_test.py).
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

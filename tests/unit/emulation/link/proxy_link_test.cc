// The effect of a profile on real connections through the proxy. Times have lower bounds only,
// because a busy machine makes everything late.
// SPDX-License-Identifier: Apache-2.0
#include "emulation/link/proxy_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "bench/probe/probe_socket.h"
#include "bench/probe/tcp_probe.h"
#include "emulation/path/link_spec.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;

class ProxyLinkTest : public testing::Test {
 protected:
  void start(const std::string& spec) {
    const auto profile = parse_link(spec);
    ASSERT_TRUE(profile.ok()) << profile.status().to_string();
    link_ = *start_link(*profile, {.seed = 1, .kind = LinkKind::kModelled});
  }

  void connect_through() {
    listener_ = *tcp_listener({});
    address_ = *link_->route(*local_address(listener_.get()));
    connect_again();
  }

  void connect_again() {
    near_ = *tcp_connection({}, address_);
    wait_readable(listener_.get(), SystemClock().now() + std::chrono::seconds(10));
    far_ = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(far_.valid());
  }

  // Whether a byte arrives at the far end.
  bool arrives_within(Duration time) const {
    wait_readable(far_.get(), SystemClock().now() + time);
    char byte = 0;
    return recv(far_.get(), &byte, 1, MSG_DONTWAIT) == 1;
  }

  std::unique_ptr<Link> link_;
  Address address_;
  UniqueFd listener_, near_, far_;
};

TEST_F(ProxyLinkTest, RoundTripsAndRatesAreTheProfiles) {
  start("ethernet+delay=15ms+rate=8mbit+queue=64kb");
  EXPECT_STREQ(link_->kind(), "modelled");
  const auto measured = probe_tcp(*link_, {.round_trips = 5, .bulk = milliseconds(400)});
  ASSERT_TRUE(measured.ok()) << measured.status().to_string();
  EXPECT_THAT(measured->round_trips_ms, Each(Ge(30)));
  for (const double mbit_s : {measured->up_mbit_s, measured->down_mbit_s}) {
    EXPECT_GT(mbit_s, 1);
    EXPECT_LT(mbit_s, 9);  // a little more may come late and at once
  }
  EXPECT_GT(link_->traffic().down, 50'000u);
}

TEST_F(ProxyLinkTest, ItsTimeBeginsAnewBetweenConnections) {
  start("ethernet+up.silent=1000s");
  link_->begin_again(std::chrono::seconds(2000), 1);
  connect_through();
  EXPECT_EQ(send(near_.get(), "x", 1, 0), 1);
  EXPECT_FALSE(arrives_within(milliseconds(100)));
  near_.reset();
  far_.reset();
  link_->begin_again(Duration{0}, 1);
  connect_again();
  EXPECT_EQ(send(near_.get(), "x", 1, 0), 1);
  EXPECT_TRUE(arrives_within(std::chrono::seconds(10)));
}

// The next loop of the link's thread publishes the counts of the previous one.
bool soon(const std::function<bool()>& holds) {
  const TimePoint give_up = SystemClock().now() + std::chrono::seconds(10);
  bool held = holds();
  while (!held && SystemClock().now() < give_up) {
    std::this_thread::sleep_for(milliseconds(2));
    held = holds();
  }
  return held;
}

TEST_F(ProxyLinkTest, ItCountsWhatItsPacketsMetSinceItsTimeBegan) {
  start("ethernet+up.loss=100%");
  connect_through();
  EXPECT_EQ(send(near_.get(), "x", 1, 0), 1);
  EXPECT_TRUE(soon([&] { return link_->counts().up.lost == 1; }));
  EXPECT_EQ(link_->counts().down.lost, 0u);
  near_.reset();
  far_.reset();
  link_->begin_again(Duration{0}, 1);
  connect_again();
  EXPECT_TRUE(soon([&] { return link_->counts().up.sent == 0; })) << "counts begin anew too";
}

TEST_F(ProxyLinkTest, AResetEndsConnectionsForBothSides) {
  start("ethernet+reset=1s");
  connect_through();
  for (const int end : {near_.get(), far_.get()}) {
    char byte = 0;
    EXPECT_EQ(recv(end, &byte, 1, 0), -1);
    EXPECT_EQ(errno, ECONNRESET);
  }
}

TEST_F(ProxyLinkTest, ADirectionThatIsSilentLooksAliveAndCarriesNothing) {
  start("ethernet+up.silent=0s");
  connect_through();
  EXPECT_EQ(send(near_.get(), "x", 1, 0), 1);
  EXPECT_EQ(send(far_.get(), "y", 1, 0), 1);
  char byte = 0;
  EXPECT_EQ(recv(near_.get(), &byte, 1, 0), 1);
  wait_readable(far_.get(), SystemClock().now() + milliseconds(100));
  EXPECT_EQ(recv(far_.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(link_->traffic().up, 0u);
}

TEST_F(ProxyLinkTest, ALostSegmentIsLateByARetransmission) {
  start("ethernet+blackout=0s/100ms");
  connect_through();
  const TimePoint sent = SystemClock().now();
  EXPECT_EQ(send(near_.get(), "x", 1, 0), 1);
  char byte = 0;
  EXPECT_EQ(recv(far_.get(), &byte, 1, 0), 1);
  // Unless the machine was so busy that the black-out was over when it was sent.
  EXPECT_GE(to_ms(SystemClock().now() - sent), 1);
}

// --- faults that are set while a link carries data ---
class ProxyFaultTest : public ProxyLinkTest {
 protected:
  void SetUp() override {
    start("delay=0ms");
    connect_through();
    EXPECT_EQ(carried(near_.get(), far_.get()), 'x');  // so the link knows the connection
  }
  ProxyLink& proxy() { return static_cast<ProxyLink&>(*link_); }
  // "x" from one end; what the other end gets within a moment, or nothing.
  std::optional<char> carried(int from, int to, Duration within = std::chrono::seconds(10)) {
    EXPECT_EQ(send(from, "x", 1, MSG_NOSIGNAL), 1);
    return got(to, within);
  }
  std::optional<char> got(int end, Duration within) {
    wait_readable(end, SystemClock().now() + within);
    char byte = 0;
    if (recv(end, &byte, 1, MSG_DONTWAIT) != 1) return std::nullopt;
    return byte;
  }
};

TEST_F(ProxyFaultTest, WhatIsHeldBackArrivesWhenTheLinkCarriesAgain) {
  proxy().impose({.holds_up = true});
  EXPECT_EQ(carried(near_.get(), far_.get(), milliseconds(100)), std::nullopt);
  EXPECT_EQ(carried(far_.get(), near_.get()), 'x') << "the other direction is not held";
  proxy().impose({});
  EXPECT_EQ(got(far_.get(), std::chrono::seconds(10)), 'x');
}

TEST_F(ProxyFaultTest, ARefusedLinkResetsWhatIsConnectedAndTakesConnectionsAtTheSamePortAgain) {
  proxy().impose({.refuses = true});
  char byte = 0;
  EXPECT_EQ(recv(near_.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_FALSE(tcp_connection({}, address_).ok());
  proxy().impose({});
  ASSERT_TRUE(soon([&] { return tcp_connection({}, address_).ok(); }));
  // The one that was tried comes to the server first.
  wait_readable(listener_.get(), SystemClock().now() + std::chrono::seconds(10));
  far_ = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  connect_again();
  EXPECT_EQ(carried(near_.get(), far_.get()), 'x');
}

TEST_F(ProxyFaultTest, AResetCountsEvenIfTheLinkIsRestoredAtOnce) {
  for (int time = 0; time < 100; ++time) {
    proxy().impose({.refuses = true});
    proxy().impose({});
    char byte = 0;
    ASSERT_EQ(recv(near_.get(), &byte, 1, 0), -1);
    ASSERT_EQ(errno, ECONNRESET);
    ASSERT_TRUE(soon([&] { return tcp_connection({}, address_).ok(); }));
    wait_readable(listener_.get(), SystemClock().now() + std::chrono::seconds(10));
    far_ = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    connect_again();
    ASSERT_EQ(carried(near_.get(), far_.get()), 'x');
  }
}

TEST_F(ProxyFaultTest, OneBitOfWhatTheServerSaysNextIsChanged) {
  proxy().garble();
  ASSERT_TRUE(soon([&] { return carried(far_.get(), near_.get()) == 'y'; }));
  EXPECT_EQ(carried(far_.get(), near_.get()), 'x') << "only what comes next";
  EXPECT_EQ(carried(near_.get(), far_.get()), 'x');
}

TEST_F(ProxyFaultTest, ItBecomesAnotherLinkForWhatIsConnected) {
  proxy().become(delay_profile(milliseconds(60)));
  ASSERT_TRUE(soon([&] {
    const TimePoint sent = SystemClock().now();
    return carried(near_.get(), far_.get()) == 'x' &&
           SystemClock().now() - sent >= milliseconds(60);
  }));
}

TEST_F(ProxyFaultTest, TheServerSeesNewConnectionsComeFromAnotherAddress) {
  proxy().impose({.source = "127.0.0.77"});
  const auto from_there = [&] {
    connect_again();
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    EXPECT_EQ(getpeername(far_.get(), reinterpret_cast<sockaddr*>(&peer), &size), 0);
    return ntohl(peer.sin_addr.s_addr) == 0x7F00004D;
  };
  EXPECT_TRUE(soon(from_there));
}

TEST_F(ProxyLinkTest, AnEmulatedLinkCannotReset) {
  const auto link = start_link(*parse_link("ethernet+reset=1s"), {.kind = LinkKind::kEmulated});
  ASSERT_FALSE(link.ok());
  EXPECT_THAT(link.status().message(), HasSubstr("resets no connections"));
  EXPECT_STREQ((*start_link(*parse_link("ethernet+reset=1s"), {}))->kind(), "modelled");
}

}  // namespace
}  // namespace outrider

// Real sockets: a client, the link, and an upstream that the test plays. A busy machine makes bytes
// late but never early; stream_pipe_test.cc tests how exact the delay is.
// SPDX-License-Identifier: Apache-2.0
#include "emulation/link/proxy_link.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr double kSlackMs = 500;  // a busy machine's, for single bytes

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

class DelayLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in own = loopback(0);
    socklen_t size = sizeof own;
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&own), size), 0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
    ASSERT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
    upstream_ = {"127.0.0.1", ntohs(own.sin_port)};
  }

  void start(double one_way_ms) {
    link_ = std::make_unique<ProxyLink>(delay_profile(from_ms(one_way_ms)), 0);
    const Result<Address> address = link_->route(upstream_);
    ASSERT_TRUE(address.ok()) << address.status().to_string();
  }

  // A connection through the link: its near end and its far end.
  void connect_through() {
    near_ = UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in to = loopback(link_->address().port);
    ASSERT_EQ(connect(near_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    far_ = UniqueFd(accept(listener_.get(), nullptr, nullptr));
    ASSERT_TRUE(far_.valid());
    set_no_delay(near_.get());
    set_no_delay(far_.get());
  }

  // From writing one byte at one end to reading it at the other.
  double one_way_ms(int from, int to) {
    const TimePoint sent = clock_.now();
    char byte = 'x';
    EXPECT_EQ(send(from, &byte, 1, 0), 1);
    EXPECT_EQ(recv(to, &byte, 1, MSG_WAITALL), 1);
    return to_ms(clock_.now() - sent);
  }

  // Other work on the machine may delay a byte; the fastest one shows the link's own overhead.
  double fastest_one_way_ms(int from, int to, int times) {
    double fastest = one_way_ms(from, to);
    for (int i = 1; i < times; ++i) fastest = std::min(fastest, one_way_ms(from, to));
    return fastest;
  }

  SystemClock clock_;
  UniqueFd listener_;
  Address upstream_;
  std::unique_ptr<ProxyLink> link_;
  UniqueFd near_;
  UniqueFd far_;
};

TEST_F(DelayLinkTest, EveryByteIsLateByTheDelayInBothDirections) {
  start(12);
  connect_through();
  for (const auto& [from, to] : {std::pair(near_.get(), far_.get()), {far_.get(), near_.get()}}) {
    const double fastest = fastest_one_way_ms(from, to, 41);
    EXPECT_GE(fastest, 12.0);
    EXPECT_LT(fastest, 12 + kSlackMs);
  }
}

TEST_F(DelayLinkTest, WithoutADelayItOnlyPassesOn) {
  start(0);
  connect_through();
  EXPECT_LT(fastest_one_way_ms(near_.get(), far_.get(), 101), kSlackMs);
}

TEST_F(DelayLinkTest, BytesOnTheirWayDoNotHoldEachOtherUp) {
  start(50);
  connect_through();
  const TimePoint began = clock_.now();
  for (int i = 0; i < 10; ++i) {
    const char byte = static_cast<char>('a' + i);
    ASSERT_EQ(send(near_.get(), &byte, 1, 0), 1);
    clock_.sleep_until(began + from_ms(3.0 * (i + 1)));
  }
  std::string got(10, ' ');
  ASSERT_EQ(recv(far_.get(), got.data(), got.size(), MSG_WAITALL), 10);
  const double took = to_ms(clock_.now() - began);
  EXPECT_EQ(got, "abcdefghij");
  EXPECT_GE(took, 27 + 50);
  EXPECT_LT(took, 27 + 50 + kSlackMs);
}

TEST_F(DelayLinkTest, MoreThanFitsOnTheWayArrivesWholeAndIsCounted) {
  start(5);
  connect_through();
  const std::string sent(3 * ProxyLink::kMaxInFlight, 'z');
  std::thread writer([&] {
    std::size_t at = 0;
    while (at < sent.size()) {
      const ssize_t put = send(near_.get(), sent.data() + at, sent.size() - at, MSG_NOSIGNAL);
      if (put <= 0) break;
      at += static_cast<std::size_t>(put);
    }
    shutdown(near_.get(), SHUT_WR);
  });
  std::string got;
  std::vector<char> some(1 << 20);
  ssize_t size = 0;
  while ((size = recv(far_.get(), some.data(), some.size(), 0)) > 0) {
    got.append(some.data(), static_cast<std::size_t>(size));
  }
  writer.join();
  EXPECT_EQ(size, 0);
  EXPECT_TRUE(got == sent);
  EXPECT_EQ(link_->traffic().up, sent.size());
  EXPECT_EQ(link_->traffic().down, 0u);
}

TEST_F(DelayLinkTest, TheEndOfAStreamIsDelayedAndTheOtherDirectionLivesOn) {
  start(30);
  connect_through();
  const TimePoint began = clock_.now();
  shutdown(near_.get(), SHUT_WR);
  char byte = 0;
  EXPECT_EQ(recv(far_.get(), &byte, 1, 0), 0);
  EXPECT_GE(to_ms(clock_.now() - began), 30);
  EXPECT_GE(one_way_ms(far_.get(), near_.get()), 30);
}

TEST_F(DelayLinkTest, AnEndedLinkCutsItsConnections) {
  start(1000);
  connect_through();
  link_.reset();
  char byte = 0;
  EXPECT_LE(recv(near_.get(), &byte, 1, 0), 0);
}

TEST_F(DelayLinkTest, AnUpstreamThatIsAwayClosesTheConnection) {
  listener_.reset();
  start(0);
  near_ = UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in to = loopback(link_->address().port);
  ASSERT_EQ(connect(near_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  char byte = 0;
  EXPECT_LE(recv(near_.get(), &byte, 1, 0), 0);
}

TEST_F(DelayLinkTest, WhatIsNoNumericAddressIsRefused) {
  ProxyLink link(delay_profile(Duration{0}), 0);
  const Result<Address> address = link.route({"example.org", 80});
  ASSERT_FALSE(address.ok());
  EXPECT_THAT(address.status().message(), HasSubstr("'example.org'"));
}

}  // namespace
}  // namespace outrider

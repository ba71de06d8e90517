// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/sending.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace outrider {
namespace {

constexpr double kMessage = 58;  // a round of four

// A link of so many bytes per second whose far end starts a pass every 100 ms; the near end sends
// as many rounds as the window lets it, up to ten a pass.
struct ThinLink {
  double bytes_per_s;
  Duration one_way;

  TimePoint free = TimePoint() + from_ms(1);
  std::deque<std::pair<TimePoint, NodeId>> arrivals = {};
  NodeId sent = 0, arrived = 0;
  int passes = 0;

  void send(UplinkWindow& window, TimePoint now) {
    free = std::max(free, now) + from_ms(kMessage / bytes_per_s * 1e3);
    arrivals.emplace_back(free + one_way, sent += 4);
    window.on_sent(sent, kMessage, now);
  }
  // Last pass's nodes, as a pass starts.
  NodeId take(TimePoint start) {
    while (!arrivals.empty() && arrivals.front().first <= start) {
      arrived = arrivals.front().second;
      arrivals.pop_front();
    }
    return arrived;
  }
};

// The longest that a message would have waited behind others in the second half of `passes`.
Duration longest_queue(ThinLink& link, UplinkWindow& window, int passes) {
  Duration longest{0};
  for (int pass = 1; pass <= passes; ++pass) {
    const TimePoint start = TimePoint() + from_ms(100.0 * ++link.passes);
    const TimePoint heard = start + link.one_way;
    window.on_pass_started(link.take(start), 2 * link.one_way, heard);
    for (int i = 0; i < 10 && window.room() >= kMessage; ++i) link.send(window, heard);
    if (pass > passes / 2) longest = std::max(longest, link.free - heard);
  }
  return longest;
}

TEST(UplinkWindowTest, OnAThinLinkTheQueueStaysShort) {
  for (const double bytes_per_s : {1000.0, 2000.0, 4000.0}) {
    UplinkWindow window;
    ThinLink link{bytes_per_s, from_ms(30)};
    const Duration queue = longest_queue(link, window, 400);
    EXPECT_LE(to_ms(queue), 500) << bytes_per_s;  // unbounded, it would be 10 s and more
  }
}

TEST(UplinkWindowTest, OnAWideLinkItIsNoLimit) {
  UplinkWindow window;
  ThinLink link{1e6, from_ms(150)};
  longest_queue(link, window, 40);
  EXPECT_GE(window.size(), 16384);
}

TEST(UplinkWindowTest, ALinkThatHasBecomeLongerIsWideAgainSoon) {
  UplinkWindow window;
  ThinLink link{1e6, from_ms(5)};
  longest_queue(link, window, 40);
  link.one_way = from_ms(150);
  longest_queue(link, window, 40);
  EXPECT_GE(window.size(), 16384);
}

TEST(UplinkWindowTest, WhatAPassStartedWithBoundsTheRoundTrip) {
  UplinkWindow window;
  const auto at = [](double ms) { return TimePoint() + from_ms(ms); };
  window.on_sent(3, kMessage, at(0));
  window.on_sent(6, kMessage, at(10));
  window.on_sent(9, kMessage, at(60));
  const RoundTripBounds bounds = window.on_pass_started(7, Duration{0}, at(100));
  EXPECT_EQ(bounds.at_most, from_ms(90)) << "the second had arrived";
  EXPECT_EQ(bounds.at_least, from_ms(40)) << "the third had not";
  EXPECT_EQ(window.on_pass_started(9, Duration{0}, at(200)).at_least, std::nullopt);
}

TEST(UplinkWindowTest, ANodeComesALinkAfterItLeftWhereverThePassIs) {
  const Duration round_trip = from_ms(100);
  const auto at = [](double ms) { return TimePoint() + from_ms(ms); };
  UplinkWindow window;
  window.on_sent(4, kMessage, at(10));
  window.on_sent(8, kMessage, at(40));
  // A pass whose verdict is heard at 80 ended at 30.
  EXPECT_EQ(window.arrived_after_pass(4, round_trip, at(80)), from_ms(30)) << "it came at 60";
  EXPECT_EQ(window.arrived_after_pass(5, round_trip, at(80)), from_ms(60)) << "it came at 90";
  EXPECT_EQ(window.arrived_after_pass(5, round_trip, at(200)), Duration{0}) << "90 is before 150";
  window.on_pass_started(4, round_trip, at(120));
  EXPECT_EQ(window.arrived_after_pass(4, round_trip, at(80)), Duration{0}) << "a pass has had it";
}

TEST(UplinkWindowTest, ANewStreamHasNothingUnderWay) {
  UplinkWindow window;
  window.on_sent(4, 4000, TimePoint() + from_ms(1));
  EXPECT_LT(window.room(), 100);
  window.restart();
  EXPECT_EQ(window.room(), window.size());
}

TEST(UplinkWindowTest, WhatLeftBeforeTheStreamWasOpenTellsNothingOfTheRoundTrip) {
  const auto at = [](double ms) { return TimePoint() + from_ms(ms); };
  UplinkWindow window;
  window.on_sent(4, kMessage, at(0));
  window.on_sent(8, kMessage, at(1));
  window.on_opened();
  const RoundTripBounds early = window.on_pass_started(4, Duration{0}, at(300));
  EXPECT_FALSE(early.at_most.has_value());
  EXPECT_FALSE(early.at_least.has_value());
  window.on_sent(12, kMessage, at(310));
  const RoundTripBounds later = window.on_pass_started(12, Duration{0}, at(420));
  ASSERT_TRUE(later.at_most.has_value());
  EXPECT_EQ(*later.at_most, from_ms(110));
}

}  // namespace
}  // namespace outrider

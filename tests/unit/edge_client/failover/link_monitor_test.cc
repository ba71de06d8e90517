// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/link_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

TimePoint at(double seconds) {
  return TimePoint{} + from_ms(seconds * 1e3);
}

LinkMonitor monitor(double min_rate = 0, Duration max_round_trip = Duration{0}) {
  return LinkMonitor({.first_patience = std::chrono::seconds(5),
                      .min_rate = min_rate,
                      .max_round_trip = max_round_trip});
}

// One verdict of `tokens` every `gap` seconds, for so many.
void decode(LinkMonitor& link, int verdicts, double gap, std::size_t tokens = 1) {
  link.on_stream(at(0));
  for (int i = 1; i <= verdicts; ++i) {
    link.on_heard(at(gap * i));
    link.on_verdict(tokens, at(gap * i));
  }
}

TEST(LinkMonitor, BeforeTheFirstVerdictItWaitsAsToldSinceTheLastWord) {
  LinkMonitor link = monitor();
  link.on_stream(at(10));
  EXPECT_EQ(link.silent_at(), at(15));
  link.on_heard(at(14));  // a prefill's progress
  EXPECT_EQ(link.silent_at(), at(19));
}

TEST(LinkMonitor, AServerThatIsKnownIsGivenFourOpeningsToAnswerAnOpen) {
  LinkMonitor link = monitor();
  link.on_stream(at(10), from_ms(300));
  EXPECT_EQ(link.silent_at(), at(11.2));
  link.on_heard(at(11));  // Opened: now it reads the prompt
  EXPECT_EQ(link.silent_at(), at(16));
  link.on_stream(at(20), from_ms(10));
  EXPECT_EQ(link.silent_at(), at(20.5));
  link.on_stream(at(30), from_ms(9000));
  EXPECT_EQ(link.silent_at(), at(35));
}

TEST(LinkMonitor, AnotherSessionsPassMayDelayTheAnswerToAnOpen) {
  LinkMonitor link = monitor();
  decode(link, 10, 0.5);
  link.on_stream(at(10), from_ms(10));
  EXPECT_EQ(link.silent_at(), at(12));
}

TEST(LinkMonitor, LaterItWaitsForFourGaps) {
  LinkMonitor link = monitor();
  decode(link, 10, 0.5);
  EXPECT_EQ(link.silent_at(), at(5) + from_ms(2000));
}

TEST(LinkMonitor, AQuickServerIsGivenHalfASecond) {
  LinkMonitor link = monitor();
  decode(link, 10, 0.01);
  EXPECT_EQ(link.patience(), from_ms(500));
}

TEST(LinkMonitor, ShortOutagesOfAServerThatWorksAheadAreWaitedFor) {
  LinkMonitor link = monitor();
  decode(link, 10, 0.1);
  link.on_outage(std::chrono::seconds(2));
  EXPECT_EQ(link.patience(), from_ms(2500));
  link.on_outage(std::chrono::seconds(1));
  EXPECT_EQ(link.patience(), from_ms(2250));
}

TEST(LinkMonitor, AnOutageLongerThanAnyPatienceIsNot) {
  LinkMonitor link = monitor();
  decode(link, 10, 0.1);
  link.on_outage(std::chrono::seconds(2));
  link.on_outage(std::chrono::seconds(10));
  EXPECT_EQ(link.patience(), from_ms(500));
}

TEST(LinkMonitor, ASlowServerIsGivenTwoGaps) {
  LinkMonitor link = monitor();
  decode(link, 3, 20);
  EXPECT_EQ(link.patience(), std::chrono::seconds(40));
}

TEST(LinkMonitor, OneLongGapIsForgottenAfterAWhile) {
  LinkMonitor link = monitor();
  decode(link, 2, 1);
  for (int i = 1; i <= 40; ++i) link.on_heard(at(2 + 0.01 * i));
  EXPECT_EQ(link.patience(), from_ms(500));
}

TEST(LinkMonitor, AServerSlowerThanThisDeviceIsTooSlow) {
  LinkMonitor link = monitor();
  decode(link, 8, 0.5);  // 2 tokens/s
  EXPECT_FALSE(link.too_slow(std::nullopt, {}, at(4)));
  EXPECT_FALSE(link.too_slow(2.0, {}, at(4)));
  const auto why = link.too_slow(5.0, {}, at(4));
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("2.0 tokens/s, fewer than 4.0"));
}

TEST(LinkMonitor, ItIsWatchedForAWhileBeforeItIsCalledSlow) {
  LinkMonitor link = monitor(100);
  decode(link, 5, 0.5);
  EXPECT_FALSE(link.too_slow(std::nullopt, {}, at(2.5)));
  decode(link, 7, 0.5);
  EXPECT_TRUE(link.too_slow(std::nullopt, {}, at(3.5)));
}

TEST(LinkMonitor, FiveLongRoundTripsInARowAreTooMany) {
  LinkMonitor link = monitor(0, from_ms(100));
  decode(link, 2, 0.1);
  std::vector<Duration> trips(4, from_ms(150));
  EXPECT_FALSE(link.too_slow(std::nullopt, trips, at(1)));
  trips.push_back(from_ms(150));
  EXPECT_TRUE(link.too_slow(std::nullopt, trips, at(1)));
  trips.push_back(from_ms(90));
  EXPECT_FALSE(link.too_slow(std::nullopt, trips, at(1)));
}

}  // namespace
}  // namespace outrider

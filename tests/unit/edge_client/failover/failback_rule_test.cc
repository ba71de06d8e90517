// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/failback_rule.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

constexpr Duration kAfter = std::chrono::seconds(2);
constexpr Duration kTook = std::chrono::milliseconds(80);

class FailbackRuleTest : public testing::Test {
 protected:
  TimePoint at(double seconds) const { return TimePoint{} + from_ms(seconds * 1e3); }

  FailbackRule rule_{kAfter};
};

TEST_F(FailbackRuleTest, ALinkMustBeGoodForTheWholeTime) {
  rule_.on_offline(at(0));
  rule_.on_probe(true, kTook, at(1));
  EXPECT_FALSE(rule_.due());
  rule_.on_probe(true, kTook, at(2.9));
  EXPECT_FALSE(rule_.due());
  EXPECT_EQ(rule_.next_probe(), at(3));
  rule_.on_probe(true, kTook, at(3));
  EXPECT_TRUE(rule_.due());
  rule_.on_probe(false, kTook, at(3.5));
  EXPECT_FALSE(rule_.due());
  rule_.on_probe(true, kTook, at(4));
  rule_.on_probe(true, kTook, at(5.9));
  EXPECT_FALSE(rule_.due());
  rule_.on_probe(true, kTook, at(6.1));
  EXPECT_TRUE(rule_.due());
}

TEST_F(FailbackRuleTest, TimeAloneMakesNoLinkGood) {
  rule_.on_offline(at(0));
  rule_.on_probe(true, kTook, at(1));
  rule_.on_probe_sent();
  EXPECT_FALSE(rule_.due());  // whatever the time is: the probe may not come back
}

TEST_F(FailbackRuleTest, OneProbeIsOutAtATime) {
  rule_.on_offline(at(0));
  EXPECT_EQ(rule_.next_probe(), at(0.5));
  rule_.on_probe_sent();
  EXPECT_EQ(rule_.next_probe(), TimePoint::max());
  rule_.on_probe(false, kTook, at(1.5));
  EXPECT_EQ(rule_.next_probe(), at(2));
}

TEST_F(FailbackRuleTest, WhatWasNotWorthItTakesLongerNextTime) {
  rule_.on_online_ended(false);
  EXPECT_EQ(rule_.needed(), 2 * kAfter);
  rule_.on_online_ended(false);
  EXPECT_EQ(rule_.needed(), 4 * kAfter);
  for (int i = 0; i < 20; ++i) rule_.on_online_ended(false);
  EXPECT_EQ(rule_.needed(), std::chrono::seconds(60));
  rule_.on_online_ended(true);
  EXPECT_EQ(rule_.needed(), kAfter);
}

TEST_F(FailbackRuleTest, AServerThatIsWorthMoreIsTakenBackSooner) {
  rule_.on_rates(40.0, std::nullopt);
  EXPECT_EQ(rule_.needed(), kAfter);
  rule_.on_rates(50.0, 10.0);  // a second lost is made good in a quarter of one
  EXPECT_EQ(rule_.needed(), from_ms(250));
  rule_.on_rates(1000.0, 1.0);
  EXPECT_EQ(rule_.needed(), from_ms(50));
  rule_.on_rates(11.0, 10.0);
  EXPECT_EQ(rule_.needed(), kAfter);
}

TEST_F(FailbackRuleTest, AProbeIsGivenFourTimesTheQuickestOnesTime) {
  EXPECT_EQ(rule_.patience(), std::chrono::seconds(1));
  rule_.on_probe(true, from_ms(80), at(1));
  EXPECT_EQ(rule_.patience(), from_ms(320));
  rule_.on_probe(true, from_ms(500), at(2));
  EXPECT_EQ(rule_.patience(), from_ms(320));
  rule_.on_probe(true, from_ms(1), at(3));
  EXPECT_EQ(rule_.patience(), from_ms(200));
}

TEST_F(FailbackRuleTest, ASlowerServerIsTriedOnceInAMinute) {
  rule_.on_rates(9.0, 10.0);
  EXPECT_EQ(rule_.needed(), std::chrono::seconds(60));
}

TEST_F(FailbackRuleTest, ANewLossForgetsHowGoodTheLinkWas) {
  rule_.on_offline(at(0));
  rule_.on_probe(true, kTook, at(1));
  rule_.on_offline(at(5));
  rule_.on_probe(true, kTook, at(6));
  EXPECT_FALSE(rule_.due());
}

}  // namespace
}  // namespace outrider

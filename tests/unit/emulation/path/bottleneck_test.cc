// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/impaired_path.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace outrider {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

PathSettings at_rate(double bit_per_s, std::size_t queue_bytes) {
  PathSettings settings;
  settings.bit_per_s = bit_per_s;
  settings.queue_bytes = queue_bytes;
  return settings;
}

PathSettings with_opportunities(std::vector<std::uint32_t> ms) {
  PathSettings settings;
  settings.opportunities =
      std::make_shared<const OpportunityTrace>(OpportunityTrace{std::move(ms)});
  settings.queue_bytes = 1 << 20;
  return settings;
}

// 8 kbit/s for a second, nothing for a second, 16 kbit/s for a second.
PathSettings with_rates() {
  PathSettings settings;
  settings.rates = std::make_shared<const RateTrace>(
      RateTrace{{{seconds(0), 8e3}, {seconds(1), 0}, {seconds(2), 16e3}}, seconds(3)});
  settings.queue_bytes = 1 << 20;
  return settings;
}

TEST(BottleneckTest, WithoutARatePacketsPassAtOnce) {
  const PathSettings settings;
  Bottleneck bottleneck(settings);
  EXPECT_EQ(bottleneck.pass(1'000'000, seconds(7)), seconds(7));
}

TEST(BottleneckTest, PacketsPassOneAfterTheOther) {
  const PathSettings settings = at_rate(12e6, 1 << 20);
  Bottleneck bottleneck(settings);
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(0)), milliseconds(1));
  EXPECT_EQ(bottleneck.pass(750, milliseconds(0)), microseconds(1500));
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(10)), milliseconds(11));
}

TEST(BottleneckTest, AFullQueueRefusesUntilThereIsRoom) {
  const PathSettings settings = at_rate(12e6, 3000);
  Bottleneck bottleneck(settings);
  EXPECT_TRUE(bottleneck.pass(1500, milliseconds(0)));
  EXPECT_TRUE(bottleneck.pass(1500, milliseconds(0)));
  EXPECT_FALSE(bottleneck.pass(1, milliseconds(0)));
  EXPECT_EQ(bottleneck.next_departure(), milliseconds(1));
  EXPECT_FALSE(bottleneck.pass(1500, microseconds(999)));
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(1)), milliseconds(3));
}

TEST(BottleneckTest, APacketLargerThanTheQueuePassesWhenItIsEmpty) {
  const PathSettings settings = at_rate(12e6, 100);
  Bottleneck bottleneck(settings);
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(0)), milliseconds(1));
}

TEST(BottleneckTest, OpportunitiesServeWhatWaitsAndWrapAtTheLast) {
  const PathSettings settings = with_opportunities({2, 2, 5});
  Bottleneck bottleneck(settings);
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(0)), milliseconds(2));
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(0)), milliseconds(2));
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(0)), milliseconds(5));
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(0)), milliseconds(7));
  // An opportunity that no packet waited for is lost.
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(13)), milliseconds(15));
  EXPECT_EQ(bottleneck.pass(1500, milliseconds(10'003)), milliseconds(10'005));
}

TEST(BottleneckTest, AnOpportunityIsSharedBySmallPacketsAndALargeOneTakesSeveral) {
  const PathSettings settings = with_opportunities({1, 2, 3, 4});
  Bottleneck bottleneck(settings);
  EXPECT_EQ(bottleneck.pass(500, milliseconds(0)), milliseconds(1));
  EXPECT_EQ(bottleneck.pass(1000, milliseconds(0)), milliseconds(1));
  EXPECT_EQ(bottleneck.pass(3200, milliseconds(0)), milliseconds(4));
  EXPECT_EQ(bottleneck.pass(1300, milliseconds(0)), milliseconds(4));
}

TEST(BottleneckTest, OpportunitiesAtTheEndsOfARoundFallTogether) {
  const PathSettings settings = with_opportunities({0, 4});
  Bottleneck bottleneck(settings);
  for (const int ms : {0, 4, 4, 8, 8}) {
    EXPECT_EQ(bottleneck.pass(1500, milliseconds(0)), milliseconds(ms));
  }
  EXPECT_EQ(Bottleneck::capacity(settings, milliseconds(0), milliseconds(8)), 3 * 1500);
}

TEST(BottleneckTest, RatesHoldForTheirTimeAndWrap) {
  const PathSettings settings = with_rates();
  Bottleneck bottleneck(settings);
  EXPECT_EQ(bottleneck.pass(500, seconds(0)), milliseconds(500));
  // 500 bytes before the stall, 500 at twice the rate after it.
  EXPECT_EQ(bottleneck.pass(1000, milliseconds(500)), milliseconds(2250));
  // 1,500 bytes to the end of the round; 500 of the next.
  EXPECT_EQ(bottleneck.pass(2000, milliseconds(2250)), milliseconds(3500));
  // A round carries 3,000 bytes: a hundred of them and 250 ms.
  EXPECT_EQ(bottleneck.pass(300'250, seconds(303)), milliseconds(603'250));
}

TEST(BottleneckTest, AnOffsetBeginsLaterInTheTrace) {
  PathSettings settings = with_rates();
  settings.trace_offset = seconds(2);
  Bottleneck bottleneck(settings);
  EXPECT_EQ(bottleneck.pass(2000, seconds(0)), seconds(1));
  PathSettings single = with_opportunities({2, 10});
  single.trace_offset = milliseconds(3);
  Bottleneck at_opportunities(single);
  EXPECT_EQ(at_opportunities.pass(1500, milliseconds(0)), milliseconds(7));
}

TEST(BottleneckTest, CapacityIsWhatPassesWhenThereIsAlwaysSomething) {
  const PathSettings settings = with_rates();
  EXPECT_DOUBLE_EQ(Bottleneck::capacity(settings, seconds(0), seconds(3)), 3000);
  EXPECT_DOUBLE_EQ(Bottleneck::capacity(settings, milliseconds(500), milliseconds(2500)), 1500);
  EXPECT_DOUBLE_EQ(Bottleneck::capacity(at_rate(8e3, 1), seconds(1), seconds(3)), 2000);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/base/rate_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace outrider {
namespace {

TEST(RateLimit, TellsHowManyItHeldBack) {
  using std::chrono::seconds;
  RateLimit limit(seconds(5));
  const TimePoint start{};
  EXPECT_EQ(limit.admit(start), 0u);
  EXPECT_EQ(limit.admit(start + seconds(1)), std::nullopt);
  EXPECT_EQ(limit.admit(start + seconds(4)), std::nullopt);
  EXPECT_EQ(limit.admit(start + seconds(5)), 2u);
  EXPECT_EQ(limit.admit(start + seconds(10)), 0u);
}

TEST(SpreadDelay, WhoIsRefusedTogetherComesBackSpreadOut) {
  using std::chrono::milliseconds;
  const Duration told = std::chrono::seconds(2);
  std::vector<Duration> herd;
  for (std::uint64_t i = 0; i < 1000; ++i) herd.push_back(spread_delay(told, 12345 + i));
  std::ranges::sort(herd);
  EXPECT_GE(herd.front(), told) << "nobody comes before there is room";
  EXPECT_LT(herd.back(), told + told / 2);
  for (std::size_t i = 1; i < herd.size(); ++i) {
    EXPECT_LT(herd[i] - herd[i - 1], milliseconds(4)) << "evenly: 1000 of them in a second";
    EXPECT_GT(herd[i], herd[i - 1]);
  }
  EXPECT_EQ(spread_delay(Duration{0}, 7), Duration{0});
  EXPECT_EQ(spread_delay(told, 7), spread_delay(told, 7));
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/base/rate_limit.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace outrider

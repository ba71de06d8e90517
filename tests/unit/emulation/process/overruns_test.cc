// SPDX-License-Identifier: Apache-2.0
#include "emulation/process/server_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

TEST(OverrunsTest, OnePassInAHundredMayBeTooSlow) {
  EXPECT_TRUE(kept_pace({.passes = 0, .overruns = 0}));
  EXPECT_TRUE(kept_pace({.passes = 300, .overruns = 3}));
  EXPECT_FALSE(kept_pace({.passes = 300, .overruns = 4}));
  EXPECT_THAT(overrun_line("draft at jetson", {.passes = 300, .overruns = 4}),
              HasSubstr("draft at jetson: 4 of 300 passes"));
}

TEST(OverrunsTest, CountsAddUp) {
  const PaceCounts sum = PaceCounts{100, 1} + PaceCounts{50, 2};
  EXPECT_EQ(to_json(sum), (Json{{"passes", 150}, {"overruns", 3}}));
}

TEST(OverrunsTest, AServersLastWordsAreRead) {
  const auto counts = parse_overruns(
      "  ready        after 0.10 s\n  overruns     3 of 512 passes were slower than ..\n");
  ASSERT_TRUE(counts.has_value());
  EXPECT_EQ(counts->passes, 512);
  EXPECT_EQ(counts->overruns, 3);
  EXPECT_FALSE(parse_overruns("").has_value());
  EXPECT_FALSE(parse_overruns("  overruns     none\n").has_value());
}

}  // namespace
}  // namespace outrider

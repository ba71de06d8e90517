// SPDX-License-Identifier: Apache-2.0
#include "edge_client/audit/sample.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace outrider {
namespace {

TEST(Sample, DrawsItsShareByTheSeed) {
  const std::vector<bool> drawn = draw_answers(200, 0.05, 7);
  EXPECT_EQ(std::ranges::count(drawn, true), 10);
  EXPECT_EQ(drawn, draw_answers(200, 0.05, 7));
  EXPECT_NE(drawn, draw_answers(200, 0.05, 8));
  EXPECT_EQ(std::ranges::count(draw_answers(3, 0, 7), true), 1) << "none would prove nothing";
  EXPECT_EQ(std::ranges::count(draw_answers(3, 1, 7), true), 3);
}

TEST(Sample, EveryAnswerIsDrawnAsOftenAsTheOthers) {
  std::vector<int> times(20);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::vector<bool> drawn = draw_answers(20, 0.25, seed);
    for (std::size_t i = 0; i < 20; ++i) times[i] += drawn[i] ? 1 : 0;
  }
  for (const int each : times) EXPECT_NEAR(each, 500, 100);
}

TEST(Sample, TheChanceToEscapeIsThatOfDrawingOthers) {
  EXPECT_DOUBLE_EQ(escape_chance(100, 5, 1), 0.95);
  EXPECT_DOUBLE_EQ(escape_chance(100, 5, 2), 95.0 / 100 * 94 / 99);
  EXPECT_DOUBLE_EQ(escape_chance(100, 5, 96), 0);
  EXPECT_DOUBLE_EQ(escape_chance(100, 100, 1), 0);
  EXPECT_EQ(escape_text(20, 1),
            "a forger escapes with chance 0.95 if 1 is forged, 0.5 if 10 are forged");
}

}  // namespace
}  // namespace outrider

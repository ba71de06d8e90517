// SPDX-License-Identifier: Apache-2.0
#include "bench/choice/choice_comparison.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/choice/noise_words.h"
#include "bench/choice/plain_choice.h"
#include "bench/choice/row_shapes.h"
#include "common/engine/sampling/noise.h"

namespace outrider {
namespace {

TEST(LazyChoice, IsTheFullEvaluationsOnDrawnRows) {
  const ComparedRows compared = compare_choices(0, 3000);
  EXPECT_EQ(compared.rows, 3000);
  EXPECT_EQ(compared.wrong, 0) << compared.first_wrong;
}

// Short rows without a clear winner: the bar is low, so that bounds decide often.
TEST(LazyChoice, IsTheFullEvaluationsOnManyPositionsOfAFlatRow) {
  std::vector<float> row;
  for (const RowShape shape : {RowShape::kFlat, RowShape::kSteps, RowShape::kUnsure}) {
    draw_row(shape, 700, 1, row);
    for (Position t = 0; t < 3000; ++t) {
      ASSERT_EQ(choose(row, {.temperature = 1.3f}, 5, t),
                choose_plainly(row, {.temperature = 1.3f}, 5, t))
          << to_string(shape) << " at " << t;
    }
  }
}

TEST(NoiseBounds, HoldAtBothEndsOfTheWords) {
  const std::uint32_t count = 1 << 22;
  for (const std::uint32_t begin : {0u, 0x80000000u - count / 2, 0u - count}) {
    const NoiseOfWords words = noise_of_words(begin, count);
    EXPECT_TRUE(words.bounded()) << begin << ": noise up to " << words.largest << ", slack "
                                 << words.least_slack << ", bounds rise: " << words.rises;
  }
  EXPECT_GT(noise_of_words(0, 16).largest, kLargestNoise - 0.05f);
}

}  // namespace
}  // namespace outrider

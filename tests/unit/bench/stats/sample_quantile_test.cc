// SPDX-License-Identifier: Apache-2.0
#include "bench/stats/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

TEST(SampleQuantileTest, TheIntervalIsThatOfOrderStatistics) {
  std::vector<double> samples;
  for (int i = 100; i >= 0; --i) samples.push_back(i);
  const Estimate half = sample_quantile(samples, 0.5);
  EXPECT_EQ(half.value, 50);
  EXPECT_EQ(half.interval->low, 40);
  EXPECT_EQ(half.interval->high, 60);
  const Estimate most = sample_quantile(samples, 1);
  EXPECT_EQ(most.value, 100);
  EXPECT_EQ(most.interval->high, 100);
}

TEST(SampleQuantileTest, OneSampleIsItsOwnQuantile) {
  EXPECT_EQ(sample_quantile({7}, 0.99).value, 7);
  EXPECT_EQ(sample_quantile({7}, 0.99).interval->low, 7);
}

TEST(SampleQuantileTest, CountsAreTakenAtTheUpperEndOfTheirStep) {
  const std::vector<std::uint64_t> counts = {90, 0, 9, 1};
  EXPECT_DOUBLE_EQ(counted_quantile(counts, 0.5, 0.5).value, 0.5);
  EXPECT_DOUBLE_EQ(counted_quantile(counts, 0.5, 0.95).value, 1.5);
  EXPECT_DOUBLE_EQ(counted_quantile(counts, 0.5, 1).value, 2);
}

}  // namespace
}  // namespace outrider

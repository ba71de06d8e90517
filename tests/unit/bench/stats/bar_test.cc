// SPDX-License-Identifier: Apache-2.0
#include "bench/stats/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace outrider {
namespace {

using testing::HasSubstr;

TEST(BarTest, TheEndThatIsCloserToFailingCounts) {
  Bar bar{"speed-up", {1.15, Interval{1.05, 1.3}}, 1.1};
  EXPECT_EQ(bar.near_end(), 1.05);
  EXPECT_FALSE(bar.met()) << "noise could have made it";
  bar.value.interval->low = 1.1;
  EXPECT_TRUE(bar.met());
  bar = {"bytes", {150, Interval{120, 210}}, 200, Bar::Side::kAtMost};
  EXPECT_EQ(bar.near_end(), 210);
  EXPECT_FALSE(bar.met());
}

TEST(BarTest, AResidualMayLeaveTheLawOnNeitherSide) {
  Bar bar{"residual", {0.01, Interval{-0.06, 0.03}}, 0.05, Bar::Side::kWithin};
  EXPECT_EQ(bar.near_end(), -0.06);
  EXPECT_FALSE(bar.met());
  bar.value.interval = Interval{-0.02, 0.05};
  EXPECT_EQ(bar.near_end(), 0.05);
  EXPECT_TRUE(bar.met());
}

TEST(BarTest, WithoutAnIntervalTheValueStandsAlone) {
  EXPECT_TRUE((Bar{"ratio", {1.2, std::nullopt}, 1.1}).met());
  EXPECT_FALSE((Bar{"ratio", {std::nan(""), std::nullopt}, 1.1}).met());
}

TEST(BarTest, PeopleAndMachinesReadTheInterval) {
  const Bar bar{"ratio", {1.2, Interval{1.0, 1.4}}, 1.1};
  EXPECT_EQ(bar.to_string(), "ratio: 1.2 [1, 1.4], at least 1.1: NOT MET");
  const Json json = to_json(std::vector<Bar>{bar})[0];
  EXPECT_EQ(json["low"], 1.0);
  EXPECT_EQ(json["limit"], 1.1);
  EXPECT_EQ(json["met"], false);
}

TEST(StatisticsTest, AMedianHasAnIntervalFromItsSamples) {
  const std::vector<double> samples = {5, 1, 4, 2, 3};
  const auto middle = median(samples);
  EXPECT_EQ(middle->value, 3);
  EXPECT_EQ(middle->interval->low, 1);
  EXPECT_EQ(middle->interval->high, 5);
  EXPECT_FALSE(median({}).has_value());
  EXPECT_FALSE(median(std::vector<double>{7})->interval.has_value());
  EXPECT_EQ(quantile(samples, 1), 5);
}

TEST(StatisticsTest, TurnsAreDrawnTogether) {
  const std::vector<double> base = {1, 10, 100, 1000}, twice = {2, 20, 200, 2000};
  const auto ratio = ratio_of_medians(base, twice);
  EXPECT_DOUBLE_EQ(ratio->value, 2);
  EXPECT_DOUBLE_EQ(ratio->interval->low, 2);
  EXPECT_DOUBLE_EQ(ratio->interval->high, 2);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/calibration.h"

#include <gtest/gtest.h>

#include <cmath>

namespace outrider {
namespace {

TEST(CalibrationTest, TheProbabilityOfAWalkIsTheProductOverItsRows) {
  Calibration calibration;
  calibration.rows[0] = {2, -1, 0.5, 1};
  calibration.rows[1] = {0, 0, 0, 0};
  const RowEvidence rows[] = {{RowKind::kDrafted, 1.5f, 0.5f, 3.0f}, {RowKind::kCorrected, 7}};
  EXPECT_DOUBLE_EQ(row_product(calibration, rows), 0.5 / (1 + std::exp(-5.0)));
  EXPECT_DOUBLE_EQ(confidence(calibration, rows), row_product(calibration, rows));
}

TEST(CalibrationTest, OddsAreHeldWithinWhatAByteCanSay) {
  EXPECT_FLOAT_EQ(log_odds(0.5f), 0);
  EXPECT_NEAR(log_odds(0.75f), std::log(3), 1e-6);
  EXPECT_NEAR(log_odds(1), std::log(99), 1e-4);
  EXPECT_NEAR(log_odds(0), -std::log(99), 1e-4);
  EXPECT_EQ(log_odds(std::nanf("")), log_odds(0));
}

TEST(CalibrationTest, ADraftedTokenCountsForMoreTheSurerTheEdge) {
  const DraftPrior prior{.offset = 1, .odds_slope = 2};
  EXPECT_FLOAT_EQ(prior.at(0.5f), 2);
  EXPECT_FLOAT_EQ(prior.at(-4), -7);
  EXPECT_FLOAT_EQ(prior.at(100), kMaxMargin);
}

TEST(CalibrationTest, TheLastMapIsPiecewiseLinearAndLevelOutside) {
  const Knot knots[] = {{0.2, 0.1}, {0.4, 0.5}, {0.8, 0.6}};
  EXPECT_DOUBLE_EQ(interpolate(knots, 0), 0.1);
  EXPECT_DOUBLE_EQ(interpolate(knots, 0.3), 0.3);
  EXPECT_DOUBLE_EQ(interpolate(knots, 0.4), 0.5);
  EXPECT_DOUBLE_EQ(interpolate(knots, 0.6), 0.55);
  EXPECT_DOUBLE_EQ(interpolate(knots, 1), 0.6);
  EXPECT_DOUBLE_EQ(interpolate({}, 0.7), 0.7);
}

TEST(CalibrationTest, GreedyAndSampledChoicesHaveTheirOwn) {
  std::vector<Calibration> all(3);
  all[0].temperature = 0;
  all[1].temperature = 1;
  all[2].temperature = 0.5;
  EXPECT_EQ(find_calibration(all, 0), &all[0]);
  EXPECT_EQ(find_calibration(all, 0.01), &all[2]);
  EXPECT_EQ(find_calibration(all, 0.9), &all[1]);
  EXPECT_EQ(find_calibration(std::span(all).first(1), 1), nullptr);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "adapters/data/random.h"
#include "adapters/exits/measure.h"

namespace outrider {
namespace {

TEST(CalibrateTest, LogisticFindsTheFunctionThatMadeTheLabels) {
  SplitMix64 random(1);
  const Logistic truth{1.5, -0.7, 0.4, -2};
  std::vector<LabelledRow> rows;
  for (int i = 0; i < 20'000; ++i) {
    RowEvidence row;
    row.margin = static_cast<float>(6 * random.uniform());
    row.spread = static_cast<float>(4 * random.uniform());
    row.odds = static_cast<float>(8 * random.uniform() - 4);
    rows.push_back({row, random.chance(truth.at(row))});
  }
  const Logistic fit = fit_logistic(rows);
  EXPECT_NEAR(fit.slope, truth.slope, 0.1);
  EXPECT_NEAR(fit.spread_slope, truth.spread_slope, 0.1);
  EXPECT_NEAR(fit.odds_slope, truth.odds_slope, 0.05);
  EXPECT_NEAR(fit.offset, truth.offset, 0.2);
}

TEST(CalibrateTest, LogisticStaysSensibleOnFewOrOneSidedRows) {
  const Logistic nothing = fit_logistic({});
  EXPECT_NEAR(nothing.slope, 1, 1e-9);
  EXPECT_NEAR(nothing.offset, 0, 1e-9);
  const RowEvidence sure{RowKind::kDrafted, 2.0f, 0.1f};
  const std::vector<LabelledRow> always(50, {sure, true});
  EXPECT_GT(fit_logistic(always).at(sure), 0.9);
  EXPECT_LT(fit_logistic(always).at(sure), 1.0);
  std::vector<LabelledRow> falling;  // more confidence, more errors: no slope may be negative
  for (int i = 0; i < 100; ++i) {
    falling.push_back({{RowKind::kDrafted, static_cast<float>(i) / 4}, i < 50});
  }
  EXPECT_GE(fit_logistic(falling).slope, 0);
}

TEST(CalibrateTest, IsotonicKnotsRiseAndFollowTheTruth) {
  SplitMix64 random(2);
  std::vector<Labelled> points;
  for (int i = 0; i < 30'000; ++i) {
    const double x = random.uniform();
    points.push_back({x, random.chance(x * x)});
  }
  const std::vector<Knot> knots = fit_isotonic(points);
  ASSERT_GT(knots.size(), 5u);
  for (std::size_t i = 1; i < knots.size(); ++i) {
    EXPECT_GT(knots[i].x, knots[i - 1].x);
    EXPECT_GE(knots[i].y, knots[i - 1].y);
  }
  for (const double x : {0.2, 0.5, 0.8}) EXPECT_NEAR(interpolate(knots, x), x * x, 0.03);
}

// Walks of one to three rows. A row is right with the probability that its margin gives, but the
// whole walk is right less often than the product of the rows.
std::vector<ExitSample> made_up_samples(std::uint64_t seed, int count) {
  SplitMix64 random(seed);
  std::vector<ExitSample> samples;
  for (int i = 0; i < count; ++i) {
    ExitSample sample;
    bool all = true;
    for (int row = random.below(3); row >= 0; --row) {
      const RowEvidence evidence{static_cast<RowKind>(random.below(3)),
                                 static_cast<float>(6 * random.uniform())};
      const bool right = random.chance(Logistic{1.0, 0, 0, -0.5}.at(evidence));
      sample.rows.push_back(evidence);
      sample.row_right.push_back(right);
      all = all && right;
    }
    sample.right = all && random.chance(0.9);
    sample.max_softmax = 0.99;
    samples.push_back(std::move(sample));
  }
  return samples;
}

TEST(CalibrateTest, AFittedConfidenceIsHonestOnOtherSamples) {
  const Calibration calibration = fit_calibration(made_up_samples(3, 6000), 1, {});
  EXPECT_EQ(calibration.temperature, 1);
  std::vector<Judged> fitted, raw;
  for (const ExitSample& sample : made_up_samples(4, 6000)) {
    fitted.push_back({confidence(calibration, sample.rows), sample.right});
    raw.push_back({sample.max_softmax, sample.right});
  }
  EXPECT_LE(calibration_error(fitted), 0.03);
  EXPECT_GE(calibration_error(raw), 0.3);
}

// A drafted token stands if its lead plus twice the edge's odds exceeds 1.
TEST(CalibrateTest, ThePriorIsWhereTheOddsAreEven) {
  SplitMix64 random(5);
  std::vector<ExitSample> samples(1);
  for (int i = 0; i < 20'000; ++i) {
    const double lead = 12 * random.uniform() - 6, odds = 8 * random.uniform() - 4;
    const bool right = random.chance(1 / (1 + std::exp(-(lead + 2 * odds - 1))));
    samples[0].comparisons.push_back({lead, odds, right, !right});
    samples[0].comparisons.push_back({lead, odds, false, false});  // the target chose another token
  }
  const DraftPrior prior = fit_prior(samples);
  EXPECT_NEAR(prior.offset, -1, 0.1);
  EXPECT_NEAR(prior.odds_slope, 2, 0.1);
  EXPECT_EQ(fit_prior({}), DraftPrior{});
}

TEST(CalibrateTest, TheErrorIsTheMeanDistanceOfConfidenceAndTruth) {
  const std::vector<Judged> judged = {{0.9, true}, {0.9, false}, {0.2, false}, {0.2, false}};
  EXPECT_NEAR(calibration_error(judged, 10), 0.5 * 0.4 + 0.5 * 0.2, 1e-12);
  EXPECT_EQ(calibration_error({}), 0);
  const std::vector<ReliabilityBin> bins = reliability(judged, 10);
  ASSERT_EQ(bins.size(), 2u);
  EXPECT_DOUBLE_EQ(bins[1].right, 0.5);
  EXPECT_EQ(bins[1].count, 2u);
}

TEST(ChooseExitsTest, WorthIsWhatTheFirstRightExitLeavesTimeFor) {
  const std::vector<ExitFacts> exits = {{2, 0.01, {true, false, false}},
                                        {6, 0.02, {true, true, false}}};
  const ExitChoiceOptions options{.num_layers = 8, .chain_share = 0.5};
  // The exit after layer 2 has 6/8 of the pass left, more than a chain takes; the exit after 6 has
  // half.
  EXPECT_NEAR(worth_of(exits, std::vector<std::size_t>{0}, options), 1.0 / 3 - 0.01, 1e-12);
  EXPECT_NEAR(worth_of(exits, std::vector<std::size_t>{1}, options), 2 * 0.5 / 3 - 0.02, 1e-12);
  EXPECT_NEAR(worth_of(exits, std::vector<std::size_t>{0, 1}, options), 1.5 / 3 - 0.03, 1e-12);
  EXPECT_EQ(choose_exits(exits, options), (std::vector<std::int32_t>{2, 6}));
}

TEST(ChooseExitsTest, AnExitThatAddsNothingOrCostsTooMuchStaysOut) {
  std::vector<ExitFacts> exits = {{2, 0.01, {true, false}},
                                  {3, 0.01, {true, false}},  // as good, but later and with a cost
                                  {4, 0.6, {true, true}}};
  const ExitChoiceOptions options{.num_layers = 8, .chain_share = 0.5};
  EXPECT_EQ(choose_exits(exits, options), (std::vector<std::int32_t>{2}));
  exits[0].cost = exits[1].cost = 2;
  EXPECT_TRUE(choose_exits(std::span(exits).first(2), options).empty());
}

}  // namespace
}  // namespace outrider

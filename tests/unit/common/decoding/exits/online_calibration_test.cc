// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/online_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "emulation/random/random.h"

namespace outrider {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int32_t kLayer = 4;

class OnlineCalibrationTest : public testing::Test {
 protected:
  // The exit states this confidence; then the verdict says whether it was right. Returns the
  // chance that was given before.
  double pass(double stated, bool right, std::int32_t layer = kLayer) {
    const double given = calibration_.hear(layer, stated, {1, 2});
    calibration_.on_verdict(std::vector<TokenId>{1, right ? 2 : 3});
    return given;
  }
  // Without a verdict.
  double chance(double stated, std::int32_t layer = kLayer) {
    const double given = calibration_.hear(layer, stated, {});
    calibration_.on_pass_lost();
    return given;
  }

  OnlineCalibration calibration_;
};

TEST_F(OnlineCalibrationTest, BeginsWithWhatTheExitStates) {
  for (const double stated : {0.02, 0.3, 0.5, 0.9, 0.98}) EXPECT_NEAR(chance(stated), stated, 1e-6);
  EXPECT_GT(chance(0), 0) << "nothing is impossible";
  EXPECT_LT(chance(1), 1);
  EXPECT_LT(chance(std::numeric_limits<double>::quiet_NaN()), 0.02);
}

TEST_F(OnlineCalibrationTest, OneSurpriseSaysLittleAndManySayMuch) {
  pass(0.9, false);
  EXPECT_GT(chance(0.9), 0.6);
  for (int i = 0; i < 20; ++i) pass(0.9, false);
  EXPECT_LT(chance(0.9), 0.2);
}

// Exits that state 0.1 to 0.9 are right by another law: too sure, too modest, or unable to tell.
TEST_F(OnlineCalibrationTest, FindsWhatConfidencesAreWorthAndFollowsWhenThatChanges) {
  SeededRandom random(7);
  const auto truth_of = [](int topic, double stated) {
    return topic == 0 ? stated / 3 : topic == 1 ? std::sqrt(stated) : 0.5;
  };
  for (const int topic : {0, 1, 2, 0}) {
    double error = 0, stated_error = 0;
    constexpr int kPasses = 400, kSettled = 100;
    for (int i = 0; i < kPasses; ++i) {
      const double stated = 0.1 + 0.1 * static_cast<double>(random.below(9));
      const double truth = truth_of(topic, stated);
      const double given = pass(stated, random.chance(truth));
      if (i < kSettled) continue;
      error += std::abs(given - truth) / (kPasses - kSettled);
      stated_error += std::abs(stated - truth) / (kPasses - kSettled);
    }
    EXPECT_LT(error, 0.12) << "topic " << topic;
    EXPECT_LT(error, stated_error) << "topic " << topic;
  }
}

TEST_F(OnlineCalibrationTest, WhatAnExitIsSurerOfIsNeverLessLikely) {
  SeededRandom random(3);
  for (int i = 0; i < 300; ++i) {
    const bool sure = random.chance(0.5);
    pass(sure ? 0.9 : 0.2, !sure);  // it is right when it is not sure
  }
  EXPECT_LE(chance(0.2), chance(0.5));
  EXPECT_LE(chance(0.5), chance(0.9));
}

TEST_F(OnlineCalibrationTest, EachExitIsJudgedByItself) {
  for (int i = 0; i < 20; ++i) {
    pass(0.9, false, 4);
    pass(0.9, true, 8);
  }
  EXPECT_LT(chance(0.9, 4), 0.2);
  EXPECT_GT(chance(0.9, 8), 0.9);
}

TEST_F(OnlineCalibrationTest, OnlyTheWholeOutcomeIsRight) {
  const auto offset_after = [](const std::vector<TokenId>& outcome) {
    OnlineCalibration fresh;
    fresh.hear(kLayer, 0.5, outcome);
    fresh.on_verdict(std::vector<TokenId>{1, 2});
    return fresh.corrections().at(0).offset;
  };
  EXPECT_GT(offset_after({1, 2}), 0);
  const std::vector<std::vector<TokenId>> others = {{1}, {1, 3}, {1, 2, 3}, {}};
  for (const std::vector<TokenId>& wrong : others) {
    EXPECT_LT(offset_after(wrong), 0);
  }
}

TEST_F(OnlineCalibrationTest, AVerdictJudgesWhatWasHeardInItsPassAndOnlyOnce) {
  calibration_.hear(kLayer, 0.5, {1});
  calibration_.on_verdict(std::vector<TokenId>{2});
  const std::vector<ExitCorrection> once = calibration_.corrections();
  calibration_.on_verdict(std::vector<TokenId>{2});
  EXPECT_EQ(calibration_.corrections(), once);
  calibration_.hear(kLayer, 0.5, {1});
  calibration_.on_pass_lost();
  calibration_.on_verdict(std::vector<TokenId>{2});
  EXPECT_EQ(calibration_.corrections(), once);
}

TEST_F(OnlineCalibrationTest, BeginsAgainWhereAnEarlierTextEnded) {
  EXPECT_THAT(calibration_.corrections(), IsEmpty());
  for (int i = 0; i < 20; ++i) pass(0.9, false);
  OnlineCalibration next;
  next.restore(calibration_.corrections());
  EXPECT_DOUBLE_EQ(next.hear(kLayer, 0.9, {}), chance(0.9));
}

// A hostile peer may send as many layers as it likes: they are believed, but not kept.
TEST_F(OnlineCalibrationTest, WhatOnePeerCanFillIsBounded) {
  for (std::int32_t layer = 0; layer < 1000; ++layer) pass(0.9, false, layer);
  EXPECT_THAT(calibration_.corrections(), SizeIs(OnlineCalibration::kMaxExits));
  EXPECT_DOUBLE_EQ(chance(0.9, 999), 0.9);
  for (int i = 0; i < 100'000; ++i) calibration_.hear(0, 0.9, {1});
  calibration_.on_verdict(std::vector<TokenId>{2});
  for (const ExitCorrection& one : calibration_.corrections()) {
    EXPECT_LE(std::abs(one.offset), ExitCorrection::kMaxOffset);
    EXPECT_GE(one.slope, 0);
    EXPECT_LE(one.slope, ExitCorrection::kMaxSlope);
  }
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/emulated/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace outrider {
namespace {

using testing::HasSubstr;

TEST(PaceTest, OneFigureHoldsForEveryNumberOfRows) {
  const PaceCurve pace = *PaceCurve::parse("83.5");
  EXPECT_EQ(pace.ms(1), 83.5);
  EXPECT_EQ(pace.ms(1000), 83.5);
  EXPECT_EQ(pace.to_string(), "83.5");
}

TEST(PaceTest, BetweenItsPointsACurveIsStraightAndBeyondThemLevel) {
  const PaceCurve pace = *PaceCurve::parse("2:10,4:20,8:24");
  EXPECT_EQ(pace.ms(1), 10);
  EXPECT_EQ(pace.ms(2), 10);
  EXPECT_EQ(pace.ms(3), 15);
  EXPECT_EQ(pace.ms(6), 22);
  EXPECT_EQ(pace.ms(8), 24);
  EXPECT_EQ(pace.ms(9), 24);
  EXPECT_EQ(pace.to_string(), "2:10,4:20,8:24");
}

TEST(PaceTest, AScaledCurveKeepsItsRows) {
  EXPECT_EQ(PaceCurve::parse("2:10,4:20")->scaled(0.5).to_string(), "2:5,4:10");
}

TEST(PaceTest, NoCurveTakesNoTime) {
  EXPECT_TRUE(PaceCurve().empty());
  EXPECT_EQ(PaceCurve().ms(5), 0);
  EXPECT_EQ(PaceCurve().to_string(), "");
}

TEST(PaceTest, WhatIsNoCurveIsRefusedByName) {
  for (const char* bad :
       {"", "x", "1:", ":3", "1:2,", "1:2,3", "3,1:2", "1:2:3", "1 :2", "1.5:2"}) {
    const Result<PaceCurve> pace = PaceCurve::parse(bad);
    ASSERT_FALSE(pace.ok()) << bad;
    EXPECT_THAT(pace.status().message(), HasSubstr("pace '" + std::string(bad) + "'")) << bad;
  }
  EXPECT_THAT(PaceCurve::parse("4:1,4:2").status().message(), HasSubstr("ascend"));
  EXPECT_THAT(PaceCurve::parse("0:1").status().message(), HasSubstr("at least 1"));
  for (const char* bad : {"-1", "nan", "inf", "1e9", "1:-2"}) {
    EXPECT_THAT(PaceCurve::parse(bad).status().message(), HasSubstr("must be from 0")) << bad;
  }
}

}  // namespace
}  // namespace outrider

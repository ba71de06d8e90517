// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/costs/row_curve.h"

#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

TEST(RowTimeTest, TheLastPassesCount) {
  RowTime mean;
  mean.add(4, 20, 10);
  EXPECT_EQ(mean.rows, 4);
  EXPECT_EQ(mean.time, 20);
  for (int i = 0; i < 100; ++i) mean.add(5, 20, 10);
  EXPECT_NEAR(mean.weight, 10, 0.01);
  EXPECT_NEAR(mean.rows, 5, 0.01) << "the mean of the passes' rows";
  for (int i = 0; i < 30; ++i) mean.add(5, 40, 10);
  EXPECT_NEAR(mean.time, 40, 1) << "a device that became slower";
}

RowCurve curve_of(const std::vector<RowTime>& means) {
  return RowCurve(means);
}

TEST(RowCurveTest, IsStraightBetweenPointsInProportionBeforeThemAndGoesOnBehind) {
  const RowCurve curve = curve_of({{2, 10, 1}, {4, 12, 1}, {8, 20, 1}});
  EXPECT_NEAR(curve.time(1), 5, 1e-9);
  EXPECT_NEAR(curve.time(3), 11, 1e-9);
  EXPECT_NEAR(curve.time(6), 16, 1e-9);
  EXPECT_NEAR(curve.time(10), 24, 1e-9);
}

TEST(RowCurveTest, NoiseMakesNoPassOfMoreRowsShorter) {
  const RowCurve curve = curve_of({{1, 10, 1}, {2, 14, 1}, {3, 12, 1}, {4, 16, 1}});
  double last = 0;
  for (std::size_t rows = 1; rows < 8; ++rows) {
    EXPECT_GE(curve.time(rows), last);
    last = curve.time(rows);
  }
  EXPECT_NEAR(curve.time(4), 16, 1e-9);
}

// Passes of a target that waits for memory take times like these: noise must not make a pass of one
// row seem nearly free and each further row dear.
TEST(RowCurveTest, NoiseTiltsNoFlatCurve) {
  const RowCurve curve = curve_of({{1, 22, 1}, {51, 18, 1}});
  for (const std::size_t rows : {1, 9, 51, 60}) EXPECT_NEAR(curve.time(rows), 20, 1e-9);
}

TEST(RowCurveTest, OnePassAmongManyTiltsLittle) {
  const RowCurve curve = curve_of({{1, 20, 19}, {2, 10, 1}, {4, 30, 1}});
  EXPECT_NEAR(curve.time(1), 19.5, 1e-9) << "nineteen passes of 20, and one of 10";
  EXPECT_NEAR(curve.time(2), 19.5, 1e-9);
  EXPECT_NEAR(curve.time(4), 30, 1e-9);
}

TEST(RowCurveTest, BehindPooledMeansItIsFlat) {
  const RowCurve curve = curve_of({{1, 10, 1}, {8, 22, 1}, {16, 18, 1}});
  EXPECT_NEAR(curve.time(12), 20, 1e-9);
  EXPECT_NEAR(curve.time(99), 20, 1e-9) << "more rows are tried";
}

TEST(RowCurveTest, NothingMeasuredCostsNothing) {
  EXPECT_EQ(RowCurve().time(5), 0);
  const RowCurve one = curve_of({{3, 10, 1}});
  EXPECT_NEAR(one.time(50), 10, 1e-9);
  EXPECT_NEAR(one.time(1), 10.0 / 3, 1e-9);
}

}  // namespace
}  // namespace outrider

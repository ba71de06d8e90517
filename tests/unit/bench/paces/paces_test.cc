// SPDX-License-Identifier: Apache-2.0
#include "bench/paces/paces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

PaperPace pace(const std::string& name) {
  const auto found = find_paces({name});
  EXPECT_TRUE(found.ok()) << found.status().to_string();
  return found->front();
}

TEST(PacesTest, AllIsThePapersTablesWithoutTheUnpaced) {
  EXPECT_EQ(find_paces({"all"})->size(), 10u);
  EXPECT_EQ(find_paces({"table9", "rtx-68m-7b", "table9-5ms"})->size(), 4u);
  EXPECT_EQ(pace("unpaced").group, PaceGroup::kUnpaced);
  EXPECT_THAT(find_paces({"jetson"}).status().message(), HasSubstr("go2-qwen2vl"));
}

TEST(PacesTest, Table5IsSplitIntoDraftSteps) {
  const PaperPace jetson = pace("jetson-160m-13b");
  EXPECT_DOUBLE_EQ(jetson.step_ms * 4, 1596);
  EXPECT_DOUBLE_EQ(step_curve(jetson).ms(1), 399);
  EXPECT_DOUBLE_EQ(step_curve(jetson).ms(32), 399 * 14.49 / 7.76);
}

TEST(PacesTest, APrintedPassTakesTheTablesTimeUpToFiveRows) {
  const PaceCurve curve = pass_curve(with_times(pace("jetson-68m-7b"), PassTimes::kPrinted));
  for (const int rows : {1, 2, 5}) EXPECT_DOUBLE_EQ(curve.ms(rows), 497);
  const double at_five = 24.63 + (30.73 - 24.63) / 4;
  EXPECT_NEAR(curve.ms(8), 497 * 30.73 / at_five, 1e-9);
  EXPECT_NEAR(curve.ms(33), 497 * (96.94 + (258.79 - 96.94) / 32) / at_five, 1e-9);
  EXPECT_NEAR(curve.ms(100), 497, 1e-9) << "a prefill";
}

TEST(PacesTest, AMeasuredPassGrowsFromCloudDecodingsOwnTime) {
  // (2 * 95 + 334 + 497) / 2.15 * 0.69
  EXPECT_NEAR(pace("jetson-68m-7b").ar_ms, 327.67, 0.01);
  EXPECT_NEAR(pace("rtx-160m-13b").ar_ms, 426.94, 0.01) << "0.81 times sd's, not 0.94";
  EXPECT_NEAR(pace("go2-qwen2vl").ar_ms, 353.84, 0.01);
  const PaceCurve curve = pass_curve(pace("jetson-68m-7b"));
  EXPECT_NEAR(curve.ms(1), 327.67, 0.02);
  EXPECT_NEAR(curve.ms(4) / curve.ms(1), 24.63 / 17.94, 1e-9);
}

TEST(PacesTest, WhatInfiniBandTakesIsNoDistance) {
  EXPECT_EQ(with_link(pace("jetson-68m-7b"), PaceLink::kWhole).one_way_ms, 95);
  EXPECT_EQ(with_link(pace("jetson-68m-7b"), PaceLink::kDistance).one_way_ms, 95 - 42);
  const PaperPace near = with_link(pace("rtx-160m-13b"), PaceLink::kDistance);
  EXPECT_EQ(near.name, "rtx-160m-13b distance");
  EXPECT_EQ(near.one_way_ms, 0);
  EXPECT_EQ(near.ar_ms, pace("rtx-160m-13b").ar_ms) << "the target stays the same";
  EXPECT_EQ(near.group, PaceGroup::kOther) << "no claim of the paper's";
  EXPECT_EQ(with_link(pace("table9-42ms"), PaceLink::kDistance).one_way_ms, 42);
}

TEST(PacesTest, Table9IsTakenByTheRow) {
  for (const PassTimes times : {PassTimes::kPrinted, PassTimes::kMeasured}) {
    const PaceCurve curve = pass_curve(with_times(pace("table9-5ms"), times));
    EXPECT_NEAR(curve.ms(1), 17.94, 1e-9);
    EXPECT_NEAR(curve.ms(16), 45.79, 1e-9);
  }
  EXPECT_NEAR(table9_pass_ms(6), 24.63 + (30.73 - 24.63) / 2, 1e-9);
  EXPECT_NEAR(table9_step_ms(24), (10.63 + 14.49) / 2, 1e-9);
}

TEST(PacesTest, DevicesOf2026DraftForTable9sTarget) {
  const PaceCurve table9 = pass_curve(pace("table9-5ms"));
  for (const std::string name : {"orin-nano", "agx-orin", "thor"}) {
    for (const PassTimes times : {PassTimes::kPrinted, PassTimes::kMeasured}) {
      const PaperPace one = with_times(pace(name), times);
      EXPECT_EQ(one.name, name) << "its times are known once";
      EXPECT_EQ(pass_curve(one).to_string(), table9.to_string()) << name;
    }
    EXPECT_EQ(with_link(pace(name), PaceLink::kDistance).one_way_ms, 5) << name;
    EXPECT_EQ(pass_curve(at_distance(pace(name), 40)).to_string(), table9.to_string()) << name;
  }
  EXPECT_GT(pace("orin-nano").step_ms, pace("agx-orin").step_ms);
  EXPECT_GT(pace("agx-orin").step_ms, pace("thor").step_ms);
  EXPECT_DOUBLE_EQ(step_curve(pace("thor")).ms(1), strong_edge_step().ms(1));
  EXPECT_NEAR(1e3 / strong_edge_pass().ms(1), 54.9, 1e-9);
  EXPECT_NEAR(8e3 / strong_edge_pass().ms(8), 308.7, 1e-9);
}

TEST(PacesTest, AnotherDistanceKeepsTheDeviceButNotThePapersResults) {
  const PaperPace moved = at_distance(pace("rtx-68m-7b"), 150);
  EXPECT_EQ(moved.name, "rtx-68m-7b@150ms");
  EXPECT_EQ(moved.one_way_ms, 150);
  EXPECT_EQ(moved.group, PaceGroup::kOther);
  EXPECT_FALSE(moved.paper.has_value());
  EXPECT_EQ(moved.ar_ms, pace("rtx-68m-7b").ar_ms);
  EXPECT_EQ(at_distance(pace("unpaced"), 1).group, PaceGroup::kUnpaced);
}

TEST(PacesTest, ADeviceIsAPaceWithoutItsDistance) {
  EXPECT_EQ(device_of("rtx-68m-7b@150ms"), "rtx-68m-7b");
  EXPECT_EQ(device_of("table9-42ms"), "table9");
  EXPECT_EQ(device_of("go2-qwen2vl printed"), "go2-qwen2vl printed");
}

// Table 6 prints averages: each is the mean of its six rows.
TEST(PacesTest, SpeedUpsAreTheMeansOfTable6sRows) {
  EXPECT_DOUBLE_EQ(pace("rtx-160m-13b").paper->ar_to_sd, 0.81);
  EXPECT_DOUBLE_EQ(pace("rtx-68m-llama2-7b").paper->ar_to_sd, 1.94);
  EXPECT_DOUBLE_EQ(pace("rtx-160m-13b").paper->mean_exit, 14);
}

TEST(PacesTest, PrintedTimesHaveANameOfTheirOwnWhereThereAreTwo) {
  EXPECT_EQ(pace("rtx-68m-7b").times, PassTimes::kMeasured);
  EXPECT_EQ(with_times(pace("rtx-68m-7b"), PassTimes::kPrinted).name, "rtx-68m-7b printed");
  EXPECT_EQ(with_times(pace("rtx-68m-7b"), PassTimes::kMeasured).name, "rtx-68m-7b");
  EXPECT_EQ(with_times(pace("table9-5ms"), PassTimes::kPrinted).name, "table9-5ms");
}

TEST(PacesTest, UnpacedModelsHaveNoCurve) {
  EXPECT_TRUE(pass_curve(pace("unpaced")).empty());
  EXPECT_TRUE(step_curve(pace("unpaced")).empty());
}

}  // namespace
}  // namespace outrider

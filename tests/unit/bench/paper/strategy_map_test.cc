// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/strategy_map.h"

#include <gtest/gtest.h>

#include "bench/cost/cell_cost.h"
#include "bench/paper/measured_points.h"
#include "bench/harness/round_tokens.h"
#include "common/base/json_record.h"

namespace outrider {
namespace {

MapPoint map_point(double one_way_ms, double acceptance) {
  return {.step_ms = 20,
          .cloud_step_ms = 10,
          .pass = *PaceCurve::create({{1, 400}, {9, 440}}),
          .one_way_ms = one_way_ms,
          .acceptance = acceptance,
          .hit_rate = 0.5};
}

TEST(StrategyMapTest, EachStrategyHasItsBestDraftLength) {
  const std::vector<MapChoice> choices = map_choices(map_point(50, 0.7), 8);
  ASSERT_EQ(choices.size(), 5u);
  EXPECT_STREQ(choices[0].name, "ar");
  EXPECT_DOUBLE_EQ(choices[0].ms, 400);
  for (int gamma = 1; gamma <= 8; ++gamma) {
    const double sd = (100 + 20 * gamma + 400 + 5 * gamma) / tokens_per_round(0.7, gamma);
    EXPECT_LE(choices[1].ms, sd + 1e-9);
    if (gamma == choices[1].gamma) {
      EXPECT_NEAR(choices[1].ms, sd, 1e-9);
    }
    const double cloud = (10 * gamma + 400 + 5 * gamma) / tokens_per_round(0.7, gamma);
    if (gamma == choices[4].gamma) {
      EXPECT_NEAR(choices[4].ms, cloud, 1e-9);
    }
  }
}

TEST(StrategyMapTest, EveryAxisCanTurnTheTables) {
  EXPECT_STREQ(fastest_at(map_point(50, 0.7), 8, false).name, "mirror");
  EXPECT_STREQ(fastest_at(map_point(50, 0.7), 8, true).name, "sd-cloud");
  MapPoint slow_cloud_draft = map_point(0, 0.7);
  slow_cloud_draft.cloud_step_ms = 60;
  EXPECT_STREQ(fastest_at(slow_cloud_draft, 8, true).name, "fsd") << "no link: the first of equals";
  EXPECT_STREQ(fastest_at(map_point(5000, 0.7), 8, false).name, "ar") << "T_c";
  EXPECT_STREQ(fastest_at(map_point(300, 0.05), 8, false).name, "ar") << "acceptance";
  MapPoint slow_draft = map_point(50, 0.7);
  slow_draft.step_ms = 2000;
  EXPECT_STREQ(fastest_at(slow_draft, 8, false).name, "ar") << "T_p";
  MapPoint fast_target = map_point(50, 0.7);
  fast_target.pass = fast_target.pass.scaled(0.02);
  EXPECT_STREQ(fastest_at(fast_target, 8, false).name, "ar") << "T_q";
}

TEST(StrategyMapTest, FigureOneIsTableFour) {
  const LawTerms round{.step_ms = 25,
                       .pass_ms = 400,
                       .one_way_ms = 50,
                       .gamma = 4,
                       .tau = 2,
                       .left_rate = 0.25,
                       .synced_rate = 0.75};
  const std::vector<TokenParts> parts = figure1_parts(round, 380, 10);
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_DOUBLE_EQ(parts[0].total_ms(), 380);
  EXPECT_DOUBLE_EQ(parts[1].total_ms(), (40 + 400) / 2.0);
  EXPECT_DOUBLE_EQ(parts[2].total_ms(), (100 + 100 + 400) / 2.0);
  EXPECT_DOUBLE_EQ(parts[3].total_ms(), (25 + 100 + 400) / 2.0);
  EXPECT_DOUBLE_EQ(parts[4].total_ms(), law_ms(Strategy::kMirror, round));
}

Json report_cell(const char* variant, const AnswerUse& use, double tokens_per_s, Json hits) {
  return {{"setting", "lte"},
          {"variant", variant},
          {"valid", true},
          {"round_trip_ms", 100},
          {"spec_draft_n_max", 4},
          {"tokens_per_s", {{"value", tokens_per_s}, {"low", nullptr}, {"high", nullptr}}},
          {"exit_hit_rate", std::move(hits)},
          {"use", write_json(use)}};
}

TEST(MeasuredPointsTest, AReportSaysWhatDevicesWereAndHowFastEachWas) {
  const AnswerUse plain{.output_tokens = 101, .passes = 101, .target_ms = 40000};
  const double tau = tokens_per_round(0.7, 4);
  const AnswerUse drafted{.output_tokens = 100 * tau,
                          .passes = 100,
                          .rounds = 100,
                          .drafted = 400,
                          .target_ms = 99 * 420,
                          .draft_ms = 8000,
                          .draft_steps = 400};
  const Json hit = {{"value", 0.8}, {"low", 0.7}, {"high", 0.9}};
  const Json report = {
      {"cells",
       {report_cell("ar", plain, 2.5, nullptr), report_cell("sd", drafted, 4, nullptr),
        report_cell("fsd", drafted, 4.4, hit), report_cell("picospec", drafted, 5, nullptr)}}};
  const auto points = measured_points(report, "r.json", 0.5);
  ASSERT_TRUE(points.ok()) << points.status().to_string();
  ASSERT_EQ(points->size(), 1u);
  const MeasuredPoint& at = points->front();
  EXPECT_DOUBLE_EQ(at.at.pass.ms(1), 400);
  EXPECT_DOUBLE_EQ(at.at.pass.ms(5), 420);
  EXPECT_DOUBLE_EQ(at.at.step_ms, 20);
  EXPECT_NEAR(at.at.acceptance, 0.7, 1e-6);
  EXPECT_DOUBLE_EQ(at.at.one_way_ms, 50);
  EXPECT_DOUBLE_EQ(at.at.hit_rate, 0.8) << "the run's own";
  EXPECT_NEAR(*at.miss_rate, 0.2, 1e-12);
  EXPECT_NEAR(*at.fsd_over_sd, 1.1, 1e-12);
  EXPECT_NEAR(at.latency_ratio(), 20.0 / 420, 1e-12);
  ASSERT_EQ(at.speeds.size(), 4u);
  EXPECT_DOUBLE_EQ(at.speeds[0].measured_ms, 400);
  EXPECT_DOUBLE_EQ(*at.speeds[0].law_ms, 400);
  EXPECT_FALSE(at.speeds[3].law_ms.has_value()) << "the law does not know it";
}

TEST(MeasuredPointsTest, WhatLacksAFieldIsRefused) {
  EXPECT_FALSE(measured_points(Json::object(), "r.json", 0.5).ok());
  const Json lacks = {{"cells", {{{"setting", "lte"}}}}};
  EXPECT_NE(measured_points(lacks, "r.json", 0.5).status().message().find("variant"),
            std::string::npos);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/report/run_report.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two cells; mirror's times are multiplied.
Json report(double factor) {
  Json samples = Json::array(), slower = Json::array();
  for (int prompt = 0; prompt < 6; ++prompt) {
    const double ms = 1000 + 100 * prompt;
    samples.push_back({{"prompt", prompt}, {"repetition", 0}, {"decode_ms", ms}, {"tokens", 50}});
    slower.push_back(
        {{"prompt", prompt}, {"repetition", 0}, {"decode_ms", ms * factor}, {"tokens", 50}});
  }
  return {{"schema", kReportSchema},
          {"models", {{"target", {{"fingerprint", "t"}}}, {"draft", {{"fingerprint", "d"}}}}},
          {"clock", "virtual"},
          {"prompts", {{"sha256", "p"}}},
          {"seed", 0},
          {"setup", {{"dtype", "auto"}, {"exits", "auto"}, {"device", "cpu"}, {"threads", 1}}},
          {"max_tokens", 60},
          {"cells",
           {{{"setting", "lte"},
             {"variant", "ar"},
             {"strategy", "ar"},
             {"valid", true},
             {"samples", samples}},
            {{"setting", "lte"},
             {"variant", "mirror"},
             {"strategy", "mirror"},
             {"link", "emulated"},
             {"exit_cost", 1.15},
             {"spec_draft_n_max", 4},
             {"valid", true},
             {"samples", slower}}}}};
}

TEST(ComparisonTest, SlowerBeyondTheLimitIsARegression) {
  const Comparison comparison = *compare_reports(report(1), "a", report(1.1), "b");
  ASSERT_EQ(comparison.cells.size(), 2u);
  EXPECT_NEAR(comparison.cells[0].slowdown->value, 1, 1e-12);
  EXPECT_FALSE(comparison.cells[0].regressed(0.05));
  EXPECT_NEAR(comparison.cells[1].slowdown->value, 1.1, 1e-12);
  EXPECT_TRUE(comparison.cells[1].regressed(0.05));
  EXPECT_FALSE(comparison.cells[1].regressed(0.15));
  EXPECT_FALSE(compare_reports(report(1.1), "a", report(1), "b")->cells[1].regressed(0.05))
      << "faster";
}

TEST(ComparisonTest, OnlyRequestsOfBothCountAndOneIsNotEnough) {
  Json first = report(1), second = report(2);
  first["cells"][1]["samples"] = Json::array({first["cells"][1]["samples"][0]});
  const Comparison comparison = *compare_reports(first, "a", second, "b");
  EXPECT_EQ(comparison.cells[1].pairs, 1u);
  EXPECT_FALSE(comparison.cells[1].regressed(0.05)) << "no interval";
}

TEST(ComparisonTest, InvalidAndUnmatchedCellsAreNotCompared) {
  Json first = report(1), second = report(2);
  second["cells"][1]["valid"] = false;
  second["cells"][0]["setting"] = "wifi";
  const Comparison comparison = *compare_reports(first, "a", second, "b");
  ASSERT_EQ(comparison.cells.size(), 1u);
  EXPECT_FALSE(comparison.cells[0].slowdown.has_value());
  EXPECT_THAT(comparison.only_once, ElementsAre("wifi / ar", "lte / ar"));
}

TEST(ComparisonTest, ADraftLengthThatWasChosenOrIsOfNoUseMayDiffer) {
  Json first = report(1), second = report(1);
  first["cells"][0]["spec_draft_n_max"] = 4;
  second["cells"][0]["spec_draft_n_max"] = 6;
  EXPECT_TRUE(compare_reports(first, "a", second, "b").ok()) << "plain decoding drafts nothing";
  second["cells"][1]["spec_draft_n_max"] = 6;
  EXPECT_FALSE(compare_reports(first, "a", second, "b").ok());
  for (Json* report : {&first, &second}) (*report)["cells"][1]["best_of_several"] = true;
  EXPECT_TRUE(compare_reports(first, "a", second, "b").ok()) << "the best of several";
}

TEST(ComparisonTest, WhatCannotBeComparedIsRefused) {
  const auto refusal = [](const char* path, const Json& value) {
    Json other = report(1);
    other[Json::json_pointer(path)] = value;
    const auto comparison = compare_reports(report(1), "a.json", other, "b.json");
    EXPECT_EQ(comparison.status().code(), StatusCode::kInvalidArgument) << path;
    return comparison.status().message();
  };
  EXPECT_THAT(refusal("/schema", "other/2"), HasSubstr("b.json: its schema"));
  EXPECT_THAT(refusal("/models/draft/fingerprint", "x"), HasSubstr("models/draft/fingerprint"));
  EXPECT_THAT(refusal("/clock", "real"), HasSubstr("clock differs"));
  EXPECT_THAT(refusal("/prompts/sha256", "x"), HasSubstr("prompts"));
  EXPECT_THAT(refusal("/seed", 1), HasSubstr("seed differs: 0 in a.json, 1 in b.json"));
  EXPECT_THAT(refusal("/setup/dtype", "int8"), HasSubstr("setup/dtype differs"));
  EXPECT_THAT(refusal("/setup/exits", "none"), HasSubstr("setup/exits differs"));
  EXPECT_THAT(refusal("/setup/threads", 2), HasSubstr("setup/threads differs"));
  EXPECT_THAT(refusal("/cells/1/link", "modelled"),
              HasSubstr("lte / mirror: link differs: \"emulated\" in a.json, \"modelled\""));
  EXPECT_THAT(refusal("/cells/1/exit_cost", 1.0), HasSubstr("exit_cost differs"));
  EXPECT_THAT(refusal("/cells/1/spec_draft_n_max", 5), HasSubstr("spec_draft_n_max differs"));
  EXPECT_THAT(refusal("/cells/1/pass_pace", "1:9"), HasSubstr("pass_pace differs"));
  EXPECT_EQ(compare_reports(Json::array(), "a", report(1), "b").status().code(),
            StatusCode::kInvalidArgument);
  Json broken = report(1);
  broken["cells"][0].erase("samples");
  EXPECT_EQ(compare_reports(report(1), "a", broken, "b").status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace outrider

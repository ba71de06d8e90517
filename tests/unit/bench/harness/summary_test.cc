// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

AnswerFigures answer(double decode_ms, double tokens) {
  AnswerFigures figures;
  figures.decode_ms = decode_ms;
  figures.tokens = tokens;
  figures.all_tokens = tokens + 1;
  figures.passes = tokens / 2;
  return figures;
}

GridCell cell(const std::string& setting, Strategy strategy, std::vector<AnswerFigures> answers) {
  return {setting, name_of(strategy), strategy, std::move(answers), 0, "ON"};
}

// Two answers of 100 and 300 tokens at each of two paces.
GridResult result() {
  GridResult result;
  for (const std::string pace : {"rtx-68m-7b", "jetson-160m-13b"}) {
    result.cells.push_back(cell(pace, Strategy::kAr, {answer(4000, 100), answer(12000, 300)}));
    result.cells.push_back(cell(pace, Strategy::kSd, {answer(6000, 100), answer(18000, 300)}));
    result.cells.push_back(cell(pace, Strategy::kMirror, {answer(2000, 100), answer(6000, 300)}));
  }
  return result;
}

std::vector<PaperPace> paces() {
  return *find_paces({"rtx-68m-7b", "jetson-160m-13b"});
}

TEST(StatisticsTest, TimePerTokenPoolsTheAnswers) {
  const std::vector<AnswerFigures> answers = {answer(1000, 10), answer(1000, 90)};
  const std::optional<Estimate> tpot = tpot_of(answers);
  EXPECT_DOUBLE_EQ(tpot->value, 20);
  EXPECT_DOUBLE_EQ(tpot->interval->low, 1000.0 / 90);
  EXPECT_DOUBLE_EQ(tpot->interval->high, 100);
}

TEST(StatisticsTest, AConstantRatioHasANarrowInterval) {
  const std::vector<AnswerFigures> slow = {answer(200, 10), answer(4000, 20), answer(30, 3)};
  const std::vector<AnswerFigures> fast = {answer(100, 10), answer(2000, 20), answer(15, 3)};
  const std::optional<Estimate> ratio = speedup(slow, fast);
  EXPECT_DOUBLE_EQ(ratio->value, 2);
  EXPECT_DOUBLE_EQ(ratio->interval->low, 2);
  EXPECT_DOUBLE_EQ(ratio->interval->high, 2);
}

TEST(StatisticsTest, OnePromptHasNoIntervalAndNoTokensNoValue) {
  const std::vector<AnswerFigures> one = {answer(100, 10)};
  EXPECT_FALSE(tpot_of(one)->interval.has_value());
  EXPECT_FALSE(tpot_of(std::vector<AnswerFigures>{answer(0, 0)}).has_value());
  EXPECT_FALSE(tpot_of({}).has_value());
}

TEST(SummaryTest, RatiosAreMeansOverThePacesAndNullWhereAStrategyDidNotRun) {
  const Summary summary = summarise(result(), paces());
  EXPECT_DOUBLE_EQ(*summary.mirror_over_sd, 3);
  EXPECT_DOUBLE_EQ(*summary.min_mirror_over_ar, 2);
  EXPECT_FALSE(summary.mirror_over_fsd.has_value());
  EXPECT_EQ(to_json(summary)["fsd_over_sd"], Json());
}

TEST(SummaryTest, OnlyBarsThatCanBeJudgedAre) {
  const std::vector<Bar> printed = judge(result(), paces(), PassTimes::kPrinted);
  ASSERT_EQ(printed.size(), 2u);
  EXPECT_TRUE(printed[0].met());
  const std::vector<Bar> measured = judge(result(), paces(), PassTimes::kMeasured);
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_EQ(measured[0].least, 1.1);
  EXPECT_EQ(measured[1].least, 0.97) << "the pace that the paper's way loses most at";
  EXPECT_TRUE(judge(result(), *find_paces({"table9"}), PassTimes::kPrinted).empty());
}

TEST(SummaryTest, AWrongTextHasNoSpeed) {
  GridResult wrong = result();
  wrong.cells[2].mismatches = 1;
  EXPECT_FALSE(speedup_at(wrong, "rtx-68m-7b", "mirror", "ar").has_value());
  EXPECT_FALSE(summarise(wrong, paces()).mirror_over_sd.has_value());
  EXPECT_TRUE(speedup_at(wrong, "rtx-68m-7b", "sd", "ar").has_value());
}

TEST(SummaryTest, TheTableStandsBesideThePapersRatios) {
  const std::string text = table(result(), paces());
  EXPECT_THAT(text, HasSubstr("rtx-68m-7b: T_p 25.5 ms, T_q 442 ms, T_c 42 ms one way"));
  EXPECT_THAT(text, HasSubstr("0.67 [0.67, 0.67]   1.20"));
  EXPECT_THAT(text, HasSubstr("miss rate 0.62"));
}

TEST(SummaryTest, ACellTellsWhatIsKnownAndNullForTheRest) {
  const GridResult all = result();
  const Json json = cell_json(all, all.cells[2]);
  EXPECT_DOUBLE_EQ(json["tpot_ms"]["value"], 20);
  EXPECT_DOUBLE_EQ(json["tokens_per_s"], 50);
  EXPECT_DOUBLE_EQ(json["over_ar"]["value"], 2);
  EXPECT_DOUBLE_EQ(json["tau"], 2);
  EXPECT_EQ(json["acceptance"], Json());
  EXPECT_EQ(json["predraft"], Json());
}

}  // namespace
}  // namespace outrider

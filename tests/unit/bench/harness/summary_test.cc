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

// A ratio and its inverse weigh the same.
TEST(SummaryTest, MeansOverPacesAreGeometric) {
  GridResult twice = result();
  for (AnswerFigures& figures : twice.cells[5].answers) figures.decode_ms *= 4;
  const auto mean = mean_speedup(twice, paces(), "mirror", "ar");
  ASSERT_TRUE(mean.has_value());
  EXPECT_NEAR(mean->value, 1, 1e-12) << "2 at one pace, a half at the other";
  EXPECT_NEAR(mean->interval->low, 1, 1e-12);
  EXPECT_FALSE(mean_speedup(result(), *find_paces({"all"}), "mirror", "ar").has_value());
}

TEST(SummaryTest, EachKindOfPaceHasItsOwnMeans) {
  GridResult all = result();
  for (GridCell cell : result().cells) {
    if (cell.setting != "rtx-68m-7b") continue;
    cell.setting = "table9-5ms";
    for (AnswerFigures& figures : cell.answers) figures.decode_ms *= 5;
    if (cell.variant == "mirror") cell.answers[0].decode_ms *= 2;
    all.cells.push_back(std::move(cell));
  }
  std::vector<PaperPace> kinds = paces();
  kinds.push_back(*find_paces({"table9-5ms"})->begin());
  const Json summary = summary_json(all, kinds);
  EXPECT_NEAR(summary["measured"]["mirror_over_sd"]["value"], 3, 1e-12);
  EXPECT_EQ(summary["measured"]["paces"], 2);
  EXPECT_EQ(summary["measured"]["fsd_over_sd"], Json()) << "not run";
  EXPECT_LT(summary["table9"]["mirror_over_sd"]["value"].get<double>(), 3);
  EXPECT_FALSE(summary.contains("printed"));
}

TEST(SummaryTest, OnlyBarsThatCanBeJudgedAre) {
  const std::vector<Bar> measured = judge(result(), paces());
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_EQ(measured[0].limit, 1.1);
  EXPECT_EQ(measured[1].limit, 0.97) << "the pace that the paper's way loses most at";
  EXPECT_TRUE(measured[0].met());
  GridResult printed_result = result();
  std::vector<PaperPace> printed;
  for (const PaperPace& pace : paces()) printed.push_back(with_times(pace, PassTimes::kPrinted));
  for (GridCell& cell : printed_result.cells) cell.setting += " printed";
  const std::vector<Bar> bars = judge(printed_result, printed);
  ASSERT_EQ(bars.size(), 3u) << "the mean over sd, and each over ar";
  EXPECT_EQ(bars[0].name, "mirror over sd, mean");
  EXPECT_EQ(bars[1].limit, 1.1);
  EXPECT_TRUE(judge(result(), *find_paces({"table9"})).empty());
}

// Noise on one prompt of two can take half of the speed away.
TEST(SummaryTest, ABarIsHeldOnTheNearEndOfItsInterval) {
  GridResult noisy = result();
  noisy.cells[2].answers[0].decode_ms = 4200;
  const std::vector<Bar> bars = judge(noisy, paces());
  EXPECT_GT(bars[0].value.value, 1.1);
  EXPECT_FALSE(bars[0].met());
}

TEST(SummaryTest, AWrongTextHasNoSpeed) {
  GridResult wrong = result();
  wrong.cells[2].mismatches = 1;
  EXPECT_FALSE(speedup_at(wrong, "rtx-68m-7b", "mirror", "ar").has_value());
  EXPECT_FALSE(mean_speedup(wrong, paces(), "mirror", "sd").has_value());
  EXPECT_TRUE(speedup_at(wrong, "rtx-68m-7b", "sd", "ar").has_value());
}

TEST(SummaryTest, TheTableStandsBesideThePapersRatios) {
  GridResult all = result();
  all.cells[2].tokens = 80;
  all.cells[2].tokens_on = 60;
  const std::string text = table(all, paces());
  EXPECT_THAT(text, HasSubstr("B/tok  spec. on\n"));
  EXPECT_THAT(text, HasSubstr(" 75 %\n"));
  EXPECT_DOUBLE_EQ(cell_json(all, all.cells[2])["speculation_on"].get<double>(), 0.75);
  EXPECT_THAT(text, HasSubstr("rtx-68m-7b: T_p 25.5 ms, T_q 358.9 ms of 1 row"));
  EXPECT_THAT(text, HasSubstr("0.67 [0.67, 0.67]   1.20"));
  EXPECT_THAT(text, HasSubstr("miss rate 0.62, Avg EE 8"));
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

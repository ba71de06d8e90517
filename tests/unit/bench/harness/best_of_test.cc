// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/contenders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;

// Two settings; the variant's time per token is given for each.
class BestOfTest : public testing::Test {
 protected:
  BestOfTest() {
    plan_.variants = *contenders({"ar", "sd-best", "mirror"}, {4});
    plan_.settings = {{.name = "near"}, {.name = "far"}};
  }

  void add_cell(std::size_t setting, std::size_t variant, double ms) {
    GridCell cell{.setting = plan_.settings[setting].name,
                  .variant = plan_.variants[variant].name,
                  .strategy = plan_.variants[variant].strategy,
                  .answers = {},
                  .mismatches = 0,
                  .speculation = "",
                  .failures = 0,
                  .gamma = plan_.variants[variant].gamma};
    AnswerFigures figures;
    figures.decode_ms = ms * 10;
    figures.tokens = 10;
    cell.answers = {figures, figures};
    result_.cells.push_back(cell);
    result_.finished.push_back({.job = {setting, variant, 0, 0}});
  }

  // sd-best stands at variants 1 to 7 with gamma 2 to 8.
  void fill() {
    for (std::size_t variant = 0; variant < 9; ++variant) {
      add_cell(0, variant, variant == 2 ? 5 : 9);
    }
    for (std::size_t variant = 0; variant < 9; ++variant) {
      add_cell(1, variant, variant == 7 ? 6 : 9);
    }
  }

  GridPlan plan_;
  GridResult result_;
};

TEST_F(BestOfTest, EachSettingKeepsItsOwnBest) {
  fill();
  const BestOfGroups kept = keep_best(plan_, result_);
  ASSERT_EQ(kept.plan.variants.size(), 3u);
  EXPECT_EQ(kept.plan.variants[1].name, "sd-best");
  ASSERT_EQ(kept.result.cells.size(), 6u);
  EXPECT_EQ(kept.result.find("near", "sd-best")->gamma, 3);
  EXPECT_EQ(kept.result.find("far", "sd-best")->gamma, 8);
  EXPECT_EQ(kept.result.cells[5].variant, "mirror");
  std::vector<std::size_t> variants;
  for (const FinishedAnswer& answer : kept.result.finished) variants.push_back(answer.job.variant);
  EXPECT_THAT(variants, ElementsAre(0, 1, 2, 0, 1, 2)) << "one answer of each that is kept";
}

TEST_F(BestOfTest, AWrongTextIsNotHiddenBehindABetterLength) {
  fill();
  result_.cells[4].mismatches = 1;
  const BestOfGroups kept = keep_best(plan_, result_);
  EXPECT_EQ(kept.result.find("near", "sd-best")->mismatches, 1u);
}

// --- bars ---------------------------------------------------------------------------------------

GridCell timed(const std::string& setting, const std::string& variant, double ms) {
  GridCell cell;
  cell.setting = setting;
  cell.variant = variant;
  for (int i = 0; i < 3; ++i) {
    AnswerFigures figures;
    figures.decode_ms = ms * (10 + i);
    figures.tokens = 10 + i;
    cell.answers.push_back(figures);
  }
  return cell;
}

TEST(RivalBarsTest, TheFastestThatWaitsIsTheOneToBeat) {
  const PaperPace pace = with_times((*find_paces({"rtx-68m-7b"}))[0], PassTimes::kMeasured);
  GridResult result;
  const std::pair<const char*, double> times[] = {{"mirror", 10},     {"sd-best", 14},
                                                  {"fsd-best", 12},   {"specedge-best", 13},
                                                  {"ssd-best", 10.5}, {"picospec", 9}};
  for (const auto& [name, ms] : times) result.cells.push_back(timed(pace.name, name, ms));
  const std::vector<Bar> bars = rival_bars(result, {pace});
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(bars[0].value.value, 1.05, 1e-9);
  EXPECT_THAT(bars[0].name, testing::HasSubstr("ssd"));
  EXPECT_FALSE(bars[0].met()) << "1.05 is not 1.1";
  EXPECT_FALSE(bars[1].met()) << "picospec is faster";
  result.cells[4] = timed(pace.name, "ssd-best", 20);
  result.cells[5] = timed(pace.name, "picospec", 11);
  for (const Bar& bar : rival_bars(result, {pace})) EXPECT_TRUE(bar.met()) << bar.to_string();
}

TEST(RivalBarsTest, PrintedPassTimesAndOtherLinksMakeNoClaim) {
  const PaperPace printed = with_times((*find_paces({"rtx-68m-7b"}))[0], PassTimes::kPrinted);
  GridResult result;
  for (const char* name :
       {"mirror", "sd-best", "fsd-best", "specedge-best", "ssd-best", "picospec"}) {
    result.cells.push_back(timed(printed.name, name, 10));
  }
  EXPECT_TRUE(rival_bars(result, {printed}).empty());
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/fsd_tables.h"

#include <gtest/gtest.h>

#include <map>

#include "bench/cost/cell_cost.h"
#include "bench/paces/paces.h"

namespace outrider {
namespace {

TEST(FsdTablesTest, TableOneIsItsOwnFormula) {
  const AnswerShape shape{
      .input_tokens = 100, .output_tokens = 500, .tokens_per_pass = 2.5, .drafted_per_pass = 4};
  for (const PaperCost& row : paper_table1()) {
    EXPECT_NEAR(500 * plain_cost(row.target, shape), row.cloud_ar, 0.5) << row.pair;
    EXPECT_NEAR(500 * cloud_draft_cost(row.target, row.draft, shape), row.cloud_sd, 0.5);
    EXPECT_NEAR(500 * edge_cost(row.target, shape).by_the_pass, row.edge_sd, 0.5);
  }
}

// The averages that bench/paces keeps are those of the rows.
TEST(FsdTablesTest, RowsOfTableSixMeetTheAverages) {
  std::map<std::string, std::pair<double, double>> sums;
  for (const PaperSpeed& row : paper_table6()) {
    sums[std::string(row.pace)].first += row.ar_to_sd / 6;
    sums[std::string(row.pace)].second += row.tau / 6;
  }
  EXPECT_EQ(sums.size(), 6u);
  for (const auto& [name, sum] : sums) {
    const PaperPace pace = find_paces({name})->front();
    EXPECT_NEAR(sum.first, pace.paper->ar_to_sd, 0.011) << name;
    EXPECT_NEAR(sum.second, pace.paper->tau, 0.011) << name;
  }
}

TEST(FsdTablesTest, EquationNineAndItsContoursAgree) {
  EXPECT_NEAR(equation9(10, 0.5, 0.1), 4, 1e-12) << "the paper says over 5";
  EXPECT_NEAR(equation9(4, 0.17, 0), 1.68, 1e-12);
  for (const double speedup : {1.1, 1.5, 2.0}) {
    const auto miss_rate = equation9_contour(7, 0.65, speedup);
    ASSERT_TRUE(miss_rate.has_value());
    EXPECT_NEAR(equation9(7, 0.65, *miss_rate), speedup, 1e-12);
  }
  EXPECT_FALSE(equation9_contour(4, 0.05, 2).has_value()) << "not even without a miss";
  EXPECT_FALSE(equation9_contour(4, 0, 1.1).has_value());
}

TEST(FsdTablesTest, TableFourFromPrintedInputs) {
  const PaperTimes jetson{334, 497, 95};
  EXPECT_NEAR(formula_ar_to_sd(jetson, 2.3, 200), (190.0 / 200 + 497) / ((190 + 334 + 497) / 2.3),
              1e-12);
  EXPECT_NEAR(formula_sd_to_fsd(jetson, 1), 1, 1e-12);
  EXPECT_NEAR(formula_sd_to_fsd(jetson, 0), (190.0 + 334 + 497) / (190 + 497), 1e-12);
}

TEST(FsdTablesTest, TheTimeOfThreadsIsWhatTableFourLeavesOver) {
  PaperTimes rtx{102, 442, 42};
  const double sync = implied_sync_ms(rtx, 0.1959, 1.06);
  EXPECT_NEAR(sync, 57.8, 0.1);
  rtx.sync_ms = sync;
  EXPECT_NEAR(formula_sd_to_fsd(rtx, 0.1959), 1.06, 1e-12);
  EXPECT_LT(implied_sync_ms({288, 620, 120}, 0.5563, 1.34), 0) << "table 8 is beyond its limit";
}

TEST(FsdTablesTest, ReportsKeepSevenThreadsBusyOnRtx) {
  EXPECT_NEAR(threads_in_use({102, 442, 42}, 32), 7.4, 0.05);
}

// Every row of table 5 has a pace, from whose times its c follows.
TEST(FsdTablesTest, TableFivesRatiosAreItsTimes) {
  for (const PaperSystem& row : paper_table5()) {
    const PaperPace pace = find_paces({std::string(row.pace)})->front();
    EXPECT_NEAR(pace.step_ms / pace.pass_ms, row.latency_ratio, 0.0065) << row.pace;
  }
}

TEST(FsdTablesTest, TableTwoHasAnExitBehindEachLayerButTheLast) {
  for (const PaperExits& row : paper_table2()) EXPECT_EQ(row.exits, row.layers - 1) << row.model;
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/flash_tables.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(LeverTables, PartsAddUpToTheirTotals) {
  for (const LeverTimes& row : lever_table1()) {
    EXPECT_NEAR(row.compute_ms + row.read_ms, row.total_ms, 0.05) << row.model;
    EXPECT_LT(row.compute_ms, row.rows16_ms) << row.model;
    EXPECT_LT(row.rows16_ms, row.rows32_ms) << row.model;
  }
  for (const LeverWaste& row : lever_table2()) {
    EXPECT_NEAR(100 * row.waste_ms / row.verify_ms, row.waste_percent, 0.05) << row.model;
  }
}

TEST(LeverTables, TimesThatAreNotPrintedFollowFromWhatIsRead) {
  const LeverTimes& large = lever_times("Qwen3-14B");
  EXPECT_FALSE(large.rows_printed);
  EXPECT_NEAR(large.rows16_ms, 817 * 1967.1 / 953.4, 1e-6);
}

// mT5: 31 ms times four.
TEST(LlmcadTables, ARowComputesAsLongAsTheDraftTimesTheParameters) {
  const LlmcadPair pair = llmcad_pair("mT5-Large");
  EXPECT_NEAR(pair.compute_ms(), 124, 1e-9);
  EXPECT_NEAR(pair.loading_share(), 1 - 124 / 7214.0, 1e-9);
  EXPECT_EQ(llmcad_pair("LLaMa-33B").draft_ms, 275);
}

TEST(PrintedRange, SetsItsCloserEndBesideAValue) {
  const PrintedRange range{1.4, 2.1};
  EXPECT_EQ(range.nearest(1.5), 1.4);
  EXPECT_EQ(range.nearest(2), 2.1);
  EXPECT_EQ(range.nearest(9), 2.1);
  EXPECT_EQ(range.nearest(0), 1.4);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

MemoryDemand demand() {
  return {.fixed = {{"the program", 10 * kMiB}, {"keys and values", 30 * kMiB}},
          .layers = std::vector<std::uint64_t>(10, 8 * kMiB),
          .head = 40 * kMiB};
}

TEST(MemoryPlanTest, AllStaysWhereThereIsRoom) {
  const auto plan = plan_memory(demand(), 1000 * kMiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->pinned_layers, 10);
  EXPECT_TRUE(plan->pinned_head);
  EXPECT_EQ(plan->streamed_bytes, 0u);
  EXPECT_EQ(plan->ring_bytes, 0u);
  EXPECT_EQ(plan->total_bytes, 160 * kMiB);
}

TEST(MemoryPlanTest, MoreMemoryNeverReadsMore) {
  std::uint64_t last = UINT64_MAX;
  int plans = 0;
  for (std::uint64_t budget = 0; budget < 200; ++budget) {
    const auto plan = plan_memory(demand(), budget * kMiB);
    if (!plan.ok()) {
      EXPECT_EQ(plans, 0) << budget;  // once it is enough, more is enough too
      continue;
    }
    ++plans;
    EXPECT_LE(plan->total_bytes, budget * kMiB);
    EXPECT_LE(plan->streamed_bytes, last);
    EXPECT_EQ(plan->streamed_bytes + plan->pinned_bytes, 120 * kMiB);
    last = plan->streamed_bytes;
  }
  EXPECT_GT(plans, 50);
  EXPECT_EQ(last, 0u);
}

TEST(MemoryPlanTest, PrefersTheOutputMatrixInMemoryToARingThatHoldsIt) {
  // The output matrix alone would need a ring of 40 + 8 + 40.
  const auto plan = plan_memory(demand(), (40 + 40 + 24) * kMiB);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->pinned_head);
  EXPECT_EQ(plan->pinned_layers, 0);
  EXPECT_EQ(plan->ring_bytes, 24 * kMiB);
}

TEST(MemoryPlanTest, LayersThatStayWholeAreNoNeighbours) {
  const MemoryDemand whole{.fixed = {}, .layers = {10, 10}, .head = 30};
  const MemoryDemand parts{.fixed = {}, .layers = {0, 10, 10, 0}, .head = 30};
  int plans = 0;
  for (std::uint64_t budget = 0; budget < 60; ++budget) {
    const auto expected = plan_memory(whole, budget), found = plan_memory(parts, budget);
    ASSERT_EQ(found.ok(), expected.ok()) << budget;
    if (!found.ok()) continue;
    ++plans;
    EXPECT_EQ(found->ring_bytes, expected->ring_bytes) << budget;
  }
  EXPECT_GT(plans, 5);
}

TEST(MemoryPlanTest, TooLittleSaysWhatIsNeededForWhat) {
  const auto plan = plan_memory(demand(), 60 * kMiB);
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(), HasSubstr("60 MiB"));
  EXPECT_THAT(plan.status().message(), HasSubstr("at least 104 MiB"));
  EXPECT_THAT(plan.status().message(), HasSubstr("keys and values 30 MiB"));
  EXPECT_THAT(plan.status().message(), HasSubstr("Remedy"));
}

}  // namespace
}  // namespace outrider

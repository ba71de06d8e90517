// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/cell_cost.h"

#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace outrider {
namespace {

Prices cell_prices() {
  Prices prices;
  prices.api = {.input = 1, .output = 2, .cached_input = 0.1};
  prices.link_dollars_per_mb = 0.5;
  prices.device_watts = 10;
  prices.dollars_per_kwh = 0.3;
  return prices;
}

// 40 tokens in 20 passes, 10 of them rounds of 4.
AnswerUse cell_use() {
  return {.input_tokens = 100,
          .output_tokens = 40,
          .passes = 20,
          .rounds = 10,
          .drafted = 40,
          .first_ms = 80,
          .decode_ms = 1440,
          .first_target_ms = 36,
          .target_ms = 360,
          .draft_ms = 144,
          .draft_steps = 40,
          .bytes = 4000};
}

TEST(CellCostTest, ApiCostsAreThoseOfTheAnswersShape) {
  const CellCost cost = cell_cost(cell_prices(), DraftPlace::kEdge, cell_use());
  const AnswerShape shape{.input_tokens = 100,
                          .output_tokens = 40,
                          .tokens_per_pass = 2,
                          .drafted_per_pass = 2,
                          .rounds_per_pass = 0.5};
  EXPECT_NEAR(*cost.total(CostKind::kApiStateless), edge_cost(cell_prices().api, shape).stateless,
              1e-12);
  EXPECT_NEAR(*cost.total(CostKind::kApiByThePass), edge_cost(cell_prices().api, shape).by_the_pass,
              1e-12);
  // 10 rounds of 120 cached tokens and 40 drafted ones in, 20 out: over 40 tokens.
  EXPECT_NEAR(cost.of(CostKind::kApiStateless)->by_pass, (10 * 0.1 * 120 + 40 + 20 * 2) / 40.0,
              1e-12);
}

TEST(CellCostTest, WhatIsOwnedIsPaidByItsTime) {
  Prices own = cell_prices();
  EXPECT_FALSE(cell_cost(own, DraftPlace::kEdge, cell_use()).total(CostKind::kGpuShared))
      << "no price";
  own.gpu_dollars_per_hour = 3.6;  // a dollar for a million milliseconds
  const CellCost cost = cell_cost(own, DraftPlace::kEdge, cell_use());
  EXPECT_NEAR(*cost.total(CostKind::kGpuShared), (36 + 360) / 40.0, 1e-9);
  EXPECT_NEAR(*cost.total(CostKind::kGpuReserved), (80 + 1440) / 40.0, 1e-9);
  EXPECT_NEAR(cost.of(CostKind::kGpuReserved)->fixed, 2, 1e-9);
  EXPECT_NEAR(*cost.total(CostKind::kTime), 38, 1e-12);
  EXPECT_NEAR(*cost.total(CostKind::kLink), 50, 1e-9);
  EXPECT_NEAR(*cost.total(CostKind::kDevice), 3.6 * 10 / 1e3 * 0.3 / 3.6, 1e-9);
  EXPECT_NEAR(*cost.all(CostKind::kGpuShared), 9.9 + 50 + 0.003, 1e-9);
}

TEST(CellCostTest, ADraftInTheCloudIsPaidThere) {
  Prices own = cell_prices();
  own.gpu_dollars_per_hour = 3.6;
  CellCost cost = cell_cost(own, DraftPlace::kCloud, cell_use());
  EXPECT_NEAR(*cost.total(CostKind::kGpuShared), (36 + 360 + 144) / 40.0, 1e-9);
  EXPECT_EQ(*cost.total(CostKind::kDevice), 0);
  EXPECT_FALSE(cost.total(CostKind::kApiByThePass)) << "no price of the draft";
  own.draft = TokenPrices{.input = 0.1, .output = 0.2, .cached_input = 0.1};
  cost = cell_cost(own, DraftPlace::kCloud, cell_use());
  EXPECT_NEAR(*cost.total(CostKind::kApiByThePass),
              (100 * 1 + 20 * 2 + 100 * 0.1 + 40 * 0.2) / 40.0, 1e-9);
  EXPECT_FALSE(cost.total(CostKind::kApiStateless));
}

TEST(CellCostTest, ADraftAloneCostsItsPower) {
  const CellCost cost = cell_cost(cell_prices(), DraftPlace::kAlone, cell_use());
  EXPECT_FALSE(cost.total(CostKind::kApiByThePass));
  EXPECT_NEAR(*cost.total(CostKind::kDevice), (36 + 360) / 40.0 * 10 / 1e3 * 0.3 / 3.6, 1e-9);
  EXPECT_FALSE(cell_cost(cell_prices(), DraftPlace::kEdge, {}).total(CostKind::kLink))
      << "no answer";
}

TEST(CellCostTest, AStrongEdgePaysForBothModelsPower) {
  const CellCost cost = cell_cost(cell_prices(), DraftPlace::kStrongEdge, cell_use());
  EXPECT_FALSE(cost.total(CostKind::kApiByThePass));
  EXPECT_NEAR(*cost.total(CostKind::kDevice), (36 + 360 + 144) / 40.0 * 10 / 1e3 * 0.3 / 3.6, 1e-9);
}

TEST(CellCostTest, TheExampleFileIsOne) {
  const Result<Prices> example =
      read_prices(source_dir() + "/bench/cost/files/example-prices.toml");
  ASSERT_TRUE(example.ok()) << example.status().to_string();
  EXPECT_NE(example->date.find("example"), std::string::npos) << "labelled as one";
  EXPECT_EQ(example->date.substr(0, 2), "20") << "dated";
  EXPECT_TRUE(example->gpu_dollars_per_hour && example->draft);
  const CellCost cost = cell_cost(*example, DraftPlace::kEdge, cell_use());
  for (const auto& [kind, name] : enum_names<CostKind>) EXPECT_GT(*cost.total(kind), 0) << name;
}

}  // namespace
}  // namespace outrider

// The learning of trees about a target's passes outlasts the process.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

std::unique_ptr<TreeStrategy> strategy_with(std::shared_ptr<AnswerMemory> memory) {
  return std::make_unique<TreeStrategy>(TreeOptions{.kind = TreeKind::kLever},
                                        RoundShape{.length = 4}, false, std::move(memory));
}

std::shared_ptr<AnswerMemory> memory_of(double ms_per_row) {
  auto memory = std::make_shared<AnswerMemory>();
  for (std::size_t rows : {1u, 5u, 9u}) {
    memory->trees.passes.observe(rows, 1, 100 + ms_per_row * static_cast<double>(rows));
  }
  return memory;
}

TEST(TreeStrategy, TeachesWhatPassesTakeAndBeginsWithIt) {
  PairProfile profile;
  EXPECT_FALSE(strategy_with(nullptr)->save_to(profile)) << "nothing was measured";
  ASSERT_TRUE(strategy_with(memory_of(2))->save_to(profile));
  EXPECT_EQ(profile.passes.size(), 3u);
  const auto memory = std::make_shared<AnswerMemory>();
  strategy_with(memory)->warm_start(profile);
  EXPECT_DOUBLE_EQ(memory->trees.passes.ms(5, 1), memory_of(2)->trees.passes.ms(5, 1));
  EXPECT_GT(memory->trees.passes.ms(5, 1), 0);
}

TEST(TreeStrategy, KnowsBetterThanAFileWhatItMeasuredItself) {
  PairProfile profile;
  ASSERT_TRUE(strategy_with(memory_of(2))->save_to(profile));
  const auto memory = memory_of(7);
  strategy_with(memory)->warm_start(profile);
  EXPECT_DOUBLE_EQ(memory->trees.passes.ms(5, 1), memory_of(7)->trees.passes.ms(5, 1));
}

TEST(TreeStrategy, AsksForNoExitsAndDraftsNothingAheadWhileTreesRest) {
  const auto memory = std::make_shared<AnswerMemory>();
  TreeStrategy ours(TreeOptions{.kind = TreeKind::kOutrider, .exits = true},
                    RoundShape{.length = 4}, true, memory);
  ours.on_target(true);
  EXPECT_TRUE(ours.pass_policy().wants_exits);
  EXPECT_TRUE(ours.drafts_ahead({}));
  for (int i = 0; i < 8; ++i) memory->trees.payoff.on_tree(1, 120, 90);
  EXPECT_FALSE(ours.pass_policy().wants_exits);
  EXPECT_FALSE(ours.drafts_ahead({}));
  while (!memory->trees.payoff.begin_round()) continue;
  EXPECT_TRUE(ours.pass_policy().wants_exits) << "trees are tried again";
}

TEST(TreeStrategy, AsksForExitsOnlyWhereItIsTold) {
  TreeStrategy ours(TreeOptions{.kind = TreeKind::kOutrider}, RoundShape{.length = 4}, true,
                    nullptr);
  ours.on_target(true);
  EXPECT_FALSE(ours.pass_policy().wants_exits);
}

TEST(TreeStrategy, BatchesRowsAheadWhereAFurtherOneCostsLessThanHalfAStep) {
  TreeStrategy ours(TreeOptions{.kind = TreeKind::kOutrider}, RoundShape{.length = 4}, true,
                    nullptr);
  const auto rows_ahead = [&](double first_ms, double next_ms) {
    Timings timings;
    for (int i = 0; i < 4; ++i) {
      timings.draft_step.add(1, from_ms(first_ms));
      timings.draft_step.add(3, from_ms(first_ms + 2 * next_ms));
    }
    return ours.grow_ahead(timings)->most_rows();
  };
  EXPECT_GT(rows_ahead(20, 2), 4u);
  EXPECT_EQ(rows_ahead(20, 18), 1u) << "EdgeLLM, figure 9";
}

}  // namespace
}  // namespace outrider

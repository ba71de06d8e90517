// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/queue_ablation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

// Of ten tokens wanted each, so many missing prompt by prompt.
GridCell cell(QueueOrder client, ReportQueue server, int workers,
              const std::vector<std::uint64_t>& missing) {
  GridCell cell{"rtx", queue_cell(client, server, workers), Strategy::kFsd, {}, 0, "ON"};
  for (const std::uint64_t count : missing) {
    AnswerFigures figures;
    figures.predraft = PredraftStats{};
    figures.predraft->wanted_tokens = 10;
    figures.predraft->missing_tokens = count;
    cell.answers.push_back(figures);
  }
  return cell;
}

GridResult result_of(std::vector<GridCell> cells) {
  GridResult result;
  result.cells = std::move(cells);
  return result;
}

TEST(QueueAblationTest, EqualCellsAreSaidToBe) {
  const GridResult equal =
      result_of({cell(QueueOrder::kPriority, ReportQueue::kPriority, 3, {4, 5, 6}),
                 cell(QueueOrder::kFifo, ReportQueue::kPriority, 3, {5, 4, 6}),
                 cell(QueueOrder::kPriority, ReportQueue::kFifo, 3, {4, 5, 6})});
  EXPECT_TRUE(priority_is_best(equal, "rtx", 3));
  EXPECT_FALSE(queue_effects(equal, "rtx", {3}).any());
}

TEST(QueueAblationTest, ADifferenceOnEveryPromptIsNoNoise) {
  const GridResult result =
      result_of({cell(QueueOrder::kPriority, ReportQueue::kPriority, 3, {1, 5, 9}),
                 cell(QueueOrder::kFifo, ReportQueue::kPriority, 3, {2, 6, 10}),
                 cell(QueueOrder::kPriority, ReportQueue::kPriority, 5, {1, 5, 9})});
  const QueueEffects effects = queue_effects(result, "rtx", {3, 5});
  EXPECT_TRUE(effects.client);
  EXPECT_FALSE(effects.server);
  EXPECT_FALSE(effects.workers);
  EXPECT_TRUE(priority_is_best(result, "rtx", 3));
  EXPECT_THAT(queue_table(result, "rtx", {3, 5}), HasSubstr("50.0 %"));
}

TEST(QueueAblationTest, AnOrderThatMissesLessEverywhereFails) {
  const GridResult result =
      result_of({cell(QueueOrder::kPriority, ReportQueue::kPriority, 3, {2, 6, 10}),
                 cell(QueueOrder::kRandom, ReportQueue::kFifo, 3, {1, 5, 9})});
  EXPECT_FALSE(priority_is_best(result, "rtx", 3));
  EXPECT_FALSE(priority_is_best(result, "rtx", 5)) << "it was not run";
}

}  // namespace
}  // namespace outrider

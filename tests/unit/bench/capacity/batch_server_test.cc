// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/batch_server.h"

#include <gtest/gtest.h>

#include <numeric>

namespace outrider {
namespace {

BatchWork round_of(std::size_t client, int drafted = 3) {
  return {.request = {.client = client}, .prompt = 0, .position = 1, .drafted = drafted};
}

BatchWork prompt_of(std::size_t client, int tokens) {
  return {.request = {.client = client}, .prompt = tokens};
}

std::vector<std::size_t> clients(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

BatchRule rule_of(BatchKind kind) {
  return {.kind = kind, .gamma = 3, .max_rows = 8, .draft_share = 0.25};
}

// The rows that a pass takes, as client:rows.
std::string taken(BatchKind kind, const std::vector<BatchWork>& waiting, std::size_t decoding,
                  std::size_t turn = 0) {
  std::string text;
  for (const BatchPart& part : next_batch(rule_of(kind), waiting, clients(decoding), turn)) {
    text +=
        std::to_string(waiting[part.index].request.client) + ":" + std::to_string(part.rows) + " ";
  }
  return text;
}

TEST(NextBatchTest, DynamicTakesWhatWaitsFirstComeFirstWithinTheRowLimit) {
  EXPECT_EQ(taken(BatchKind::kDynamic, {round_of(4)}, 9), "4:4 ");
  EXPECT_EQ(taken(BatchKind::kDynamic, {round_of(4), round_of(2), round_of(1)}, 9), "4:4 2:4 ");
  EXPECT_EQ(taken(BatchKind::kDynamic, {round_of(4), prompt_of(2, 9), round_of(1)}, 9), "4:4 2:4 ");
  EXPECT_EQ(taken(BatchKind::kDynamic, {prompt_of(2, 6), round_of(1)}, 9), "2:6 ");
  EXPECT_EQ(taken(BatchKind::kDynamic, {}, 9), "");
}

TEST(NextBatchTest, StaticWaitsUntilTheBatchIsFull) {
  EXPECT_EQ(taken(BatchKind::kStatic, {round_of(4)}, 9), "");
  EXPECT_EQ(taken(BatchKind::kStatic, {round_of(4), round_of(2), round_of(1)}, 9), "4:4 2:4 ");
  // All that decode are there.
  EXPECT_EQ(taken(BatchKind::kStatic, {round_of(4)}, 1), "4:4 ");
  EXPECT_EQ(taken(BatchKind::kStatic, {round_of(4), prompt_of(1, 2)}, 9), "1:2 ");
}

// Five sessions are three batches: 0 and 3, 1 and 4, 2.
TEST(NextBatchTest, PipelinedVerifiesItsBatchesInTurn) {
  EXPECT_EQ(pipelined_batches(rule_of(BatchKind::kPipelined), 5), 3u);
  EXPECT_EQ(pipelined_batches(rule_of(BatchKind::kPipelined), 0), 1u);
  const std::vector<BatchWork> waiting = {round_of(4), round_of(0), round_of(2), round_of(1)};
  EXPECT_EQ(taken(BatchKind::kPipelined, waiting, 5, 0), "");  // 3 is missing
  EXPECT_EQ(taken(BatchKind::kPipelined, waiting, 5, 1), "4:4 1:4 ");
  EXPECT_EQ(taken(BatchKind::kPipelined, waiting, 5, 2), "2:4 ");
  EXPECT_EQ(taken(BatchKind::kPipelined, waiting, 5, 4), "4:4 1:4 ");
}

TEST(BatchTimeTest, OnlyCoLocatedDraftsKeepTheDevice) {
  const PaceCurve pass = *PaceCurve::create({{1, 10}, {8, 80}});
  EXPECT_EQ(batch_ms(rule_of(BatchKind::kDynamic), pass, 8, 2), 80);
  // Three steps for two sessions, or a block of six tokens.
  EXPECT_EQ(batch_ms(rule_of(BatchKind::kColocatedSteps), pass, 8, 2), 80 + 3 * 0.25 * 20);
  EXPECT_EQ(batch_ms(rule_of(BatchKind::kColocatedBlock), pass, 8, 2), 80 + 0.25 * 60);
  EXPECT_EQ(batch_ms(rule_of(BatchKind::kColocatedSteps), pass, 8, 0), 80);
}

}  // namespace
}  // namespace outrider

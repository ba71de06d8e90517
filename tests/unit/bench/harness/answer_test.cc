// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/json_record.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json edge_line() {
  AnswerRecord record;
  record.ids = {5, 6, 7, 8};
  record.speculation = "ON";
  record.stats.decode_ms = 30;
  record.stats.completion_tokens = 4;
  record.stats.first_verdict = {.tokens = 1, .rows = 90, .compute = from_ms(50)};
  record.stats.prompt_tokens = 90;
  record.stats.passes = 3;
  record.stats.rows = 100;
  record.stats.target_compute = from_ms(70);
  record.stats.num_drafts = 2;
  record.stats.num_draft_tokens = 8;
  record.stats.num_accepted_tokens = 1;
  record.stats.draft_steps = 9;
  record.stats.draft_compute = from_ms(12);
  record.draft_overruns = 1;
  record.stats.passes_by_rows = {0, 0, 0, 0, 2};
  record.stats.exit_passes_by_rows = {0, 0, 0, 0, 1};
  record.traffic = TrafficRecord{.bytes = {.payload_up = 100, .payload_down = 40}};
  return write_json(record);
}

TEST(EdgeAnswerTest, ThePrefillsVerdictIsLeftOutOfDecoding) {
  const Result<EdgeAnswer> answer = read_edge_answer(edge_line().dump());
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_THAT(answer->record.ids, ElementsAre(5, 6, 7, 8));
  const AnswerFigures& figures = answer->figures;
  EXPECT_EQ(figures.tokens, 3);
  EXPECT_EQ(figures.passes, 2);
  EXPECT_EQ(figures.rows, 10);
  EXPECT_EQ(figures.decode_ms, 30);
  EXPECT_EQ(figures.compute_ms, 20);
  EXPECT_EQ(figures.tpot_ms(), 10);
  EXPECT_EQ(figures.tau(), 1.5);
  EXPECT_EQ(figures.pass_ms(), 10);
  EXPECT_EQ(figures.acceptance(), 0.125);
  EXPECT_THAT(figures.passes_by_rows, ElementsAre(0, 0, 0, 0, 2));
  EXPECT_THAT(figures.exit_passes_by_rows, ElementsAre(0, 0, 0, 0, 1));
  EXPECT_EQ(figures.draft_overruns, 1);
}

TEST(EdgeAnswerTest, NodesOfThePrefillsPassAreLeftOutToo) {
  Json line = edge_line();
  line["cached_tokens"] = 3;
  line["first_verdict"]["tokens"] = 2;
  line["spec_decode_num_accepted_tokens"] = 2;
  const AnswerFigures figures = read_edge_answer(line.dump())->figures;
  EXPECT_EQ(figures.drafted, 5) << "90 rows: 87 of the prompt, 3 nodes";
  EXPECT_EQ(figures.accepted, 1);
  EXPECT_EQ(figures.rounds, 1);
}

TEST(EdgeAnswerTest, PredraftCountsAreReadWhereTheyAre) {
  Json line = edge_line();
  line["predraft"].update({{"verdicts", 4},
                           {"hits", 3},
                           {"misses", 1},
                           {"late_hits", 2},
                           {"wanted_tokens", 16},
                           {"missing_tokens", 9}});
  AnswerFigures sum = read_edge_answer(line.dump())->figures;
  sum += read_edge_answer(edge_line().dump())->figures;
  EXPECT_EQ(sum.predraft->hits, 3);
  EXPECT_EQ(sum.miss_rate(), 0.25);
  EXPECT_EQ(sum.left_rate(), 0.5) << "the late ones' first tokens were half done";
  EXPECT_EQ(sum.tokens, 6);
}

// The paper's cache has a round whole or not at all.
TEST(EdgeAnswerTest, AMissIsWhateverIsNoWholeHit) {
  AnswerFigures figures;
  figures.predraft =
      PredraftStats{.verdicts = 10, .hits = 4, .partial_hits = 3, .late_hits = 1, .misses = 2};
  EXPECT_DOUBLE_EQ(*figures.miss_rate(), 0.6);
  EXPECT_DOUBLE_EQ(*figures.partial_rate(), 0.4);
}

TEST(EdgeAnswerTest, TheMeanExitIsThatOfTheHitsThatExitsNamed) {
  AnswerFigures sum;
  EXPECT_FALSE(sum.mean_exit().has_value());
  sum.predraft = PredraftStats{.verdicts = 9, .hits_by_exit = {6, 2}, .exit_layers = {4, 6, 8}};
  EXPECT_DOUBLE_EQ(*sum.mean_exit(), 4.5);
  sum += AnswerFigures(sum);
  EXPECT_DOUBLE_EQ(*sum.mean_exit(), 4.5);
}

TEST(EdgeAnswerTest, WhatIsMissingIsNamed) {
  for (const char* key : {"decode_ms", "first_verdict", "bytes", "ids", "draft_ms",
                          "passes_by_rows", "draft_pace_overruns"}) {
    Json line = edge_line();
    line.erase(key);
    const Result<EdgeAnswer> answer = read_edge_answer(line.dump());
    ASSERT_FALSE(answer.ok()) << key;
    EXPECT_THAT(answer.status().message(), HasSubstr(key));
  }
  EXPECT_FALSE(read_edge_answer("").ok());
  EXPECT_FALSE(read_edge_answer("[]").ok());
}

TEST(EdgeAnswerTest, AFigureThatTheEdgeDoesNotKnowIsNamed) {
  for (const char* key : {"decode_ms", "bytes"}) {
    Json line = edge_line();
    line[key] = nullptr;
    EXPECT_THAT(read_edge_answer(line.dump()).status().message(), HasSubstr(key));
  }
}

TEST(EdgeAnswerTest, SumsKeepAcceptanceByDepthAndBranch) {
  Json line = edge_line();
  line["spec_decode_drafted_per_branch"] = {{2, 2}, {2, 1}};
  line["spec_decode_accepted_per_branch"] = {{1, 1}, {1, 0}};
  AnswerFigures sum = read_edge_answer(line.dump())->figures;
  sum += read_edge_answer(edge_line().dump())->figures;
  sum += read_edge_answer(line.dump())->figures;
  EXPECT_EQ(sum.drafted_per_branch, (CountsByBranch{{4, 4}, {4, 2}}));
  EXPECT_EQ(sum.accepted_per_branch, (CountsByBranch{{2, 2}, {2, 0}}));
}

TEST(EdgeAnswerTest, AnAnswerOfOneVerdictHasNoSpeed) {
  Json line = edge_line();
  line["first_verdict"]["tokens"] = 4;
  line["target_passes"] = 1;
  const AnswerFigures figures = read_edge_answer(line.dump())->figures;
  EXPECT_FALSE(figures.tpot_ms().has_value());
  EXPECT_FALSE(figures.tau().has_value());
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json edge_line() {
  return {{"ids", {5, 6, 7, 8}},
          {"speculation", "ON"},
          {"decode_ms", 30.0},
          {"completion_tokens", 4},
          {"first_verdict", {{"tokens", 1}, {"rows", 90}, {"compute_ms", 50.0}}},
          {"prompt_tokens", 90},
          {"cached_tokens", nullptr},
          {"target_passes", 3},
          {"target_rows", 100},
          {"target_compute_ms", 70.0},
          {"spec_decode_num_drafts", 2},
          {"spec_decode_num_draft_tokens", 8},
          {"spec_decode_num_accepted_tokens", 1},
          {"draft_steps", 9},
          {"draft_ms", 12.0},
          {"bytes", {{"payload_up", 100}, {"payload_down", 40}}}};
}

TEST(EdgeAnswerTest, ThePrefillsVerdictIsLeftOutOfDecoding) {
  const Result<EdgeAnswer> answer = read_edge_answer(edge_line().dump(), 2);
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_THAT(answer->ids, ElementsAre(5, 6, 7, 8));
  const AnswerFigures& figures = answer->figures;
  EXPECT_EQ(figures.tokens, 3);
  EXPECT_EQ(figures.passes, 2);
  EXPECT_EQ(figures.rows, 10);
  EXPECT_EQ(figures.decode_ms, 60) << "times the scale";
  EXPECT_EQ(figures.compute_ms, 40);
  EXPECT_EQ(figures.tpot_ms(), 20);
  EXPECT_EQ(figures.tau(), 1.5);
  EXPECT_EQ(figures.pass_ms(), 20);
  EXPECT_EQ(figures.acceptance(), 0.125);
  EXPECT_FALSE(figures.miss_rate().has_value());
}

TEST(EdgeAnswerTest, NodesOfThePrefillsPassAreLeftOutToo) {
  Json line = edge_line();
  line["cached_tokens"] = 3;
  line["first_verdict"]["tokens"] = 2;
  line["spec_decode_num_accepted_tokens"] = 2;
  const AnswerFigures figures = read_edge_answer(line.dump(), 1)->figures;
  EXPECT_EQ(figures.drafted, 5) << "90 rows: 87 of the prompt, 3 nodes";
  EXPECT_EQ(figures.accepted, 1);
  EXPECT_EQ(figures.rounds, 1);
}

TEST(EdgeAnswerTest, PredraftCountsAreReadWhereTheyAre) {
  Json line = edge_line();
  line["predraft"] = {{"verdicts", 4},  {"hits", 3},           {"misses", 1},
                      {"late_hits", 2}, {"wanted_tokens", 16}, {"missing_tokens", 9}};
  AnswerFigures sum = read_edge_answer(line.dump(), 1)->figures;
  sum += read_edge_answer(edge_line().dump(), 1)->figures;
  EXPECT_EQ(sum.predraft->hits, 3);
  EXPECT_EQ(sum.miss_rate(), 0.25);
  EXPECT_EQ(sum.left_rate(), 0.5) << "the late ones' first tokens were half done";
  EXPECT_EQ(sum.tokens, 6);
}

TEST(EdgeAnswerTest, WhatIsMissingIsNamed) {
  for (const char* key : {"decode_ms", "first_verdict", "bytes", "ids", "draft_ms"}) {
    Json line = edge_line();
    line.erase(key);
    const Result<EdgeAnswer> answer = read_edge_answer(line.dump(), 1);
    ASSERT_FALSE(answer.ok()) << key;
    EXPECT_THAT(answer.status().message(), HasSubstr(key));
  }
  EXPECT_FALSE(read_edge_answer("", 1).ok());
  EXPECT_FALSE(read_edge_answer("[]", 1).ok());
}

TEST(EdgeAnswerTest, AnAnswerOfOneVerdictHasNoSpeed) {
  Json line = edge_line();
  line["first_verdict"]["tokens"] = 4;
  line["target_passes"] = 1;
  const AnswerFigures figures = read_edge_answer(line.dump(), 1)->figures;
  EXPECT_FALSE(figures.tpot_ms().has_value());
  EXPECT_FALSE(figures.tau().has_value());
}

}  // namespace
}  // namespace outrider

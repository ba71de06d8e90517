// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/level_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using ::testing::HasSubstr;

const std::vector<LevelProfile> kThreeLevels = {{"100", 2, 20}, {"60", 1, 12}, {"40", 0.5, 8}};

LevelChoice chosen(const LevelWish& wish, const AnswerSize& size) {
  const Result<LevelChoice> choice = choose_level(kThreeLevels, wish, size, std::nullopt);
  EXPECT_TRUE(choice.ok()) << choice.status().message();
  return choice.ok() ? *choice : LevelChoice();
}

Status refused(const LevelWish& wish, const AnswerSize& size = {.prompt_tokens = 100}) {
  return choose_level(kThreeLevels, wish, size, std::nullopt).status();
}

TEST(LevelChoice, WithoutAWishTheFullModelAnswers) {
  const LevelChoice choice = chosen({}, {.prompt_tokens = 100});
  EXPECT_EQ(choice.level, 0u);
  EXPECT_TRUE(choice.keeps);
  EXPECT_DOUBLE_EQ(choice.predicted.ttft_ms, 200);
  EXPECT_FALSE(choice.predicted.time_ms);
  EXPECT_EQ(chosen({.level = "auto"}, {.prompt_tokens = 100}).level, 0u);
}

// 100 tokens and 40: 200 + 39 * 20 = 980 ms in full, 100 + 39 * 12 = 568 at 60, 362 at 40.
TEST(LevelChoice, LargestLevelThatKeepsTheTimeAnswers) {
  const AnswerSize size{.prompt_tokens = 100, .max_tokens = 40};
  EXPECT_EQ(chosen({.slo = {.time_ms = 980}}, size).level, 0u);
  EXPECT_EQ(chosen({.slo = {.time_ms = 979}}, size).level, 1u);
  EXPECT_EQ(chosen({.slo = {.time_ms = 567}}, size).level, 2u);
  EXPECT_DOUBLE_EQ(*chosen({.slo = {.time_ms = 567}}, size).predicted.time_ms, 362);
  EXPECT_EQ(chosen({.slo = {.ttft_ms = 150}}, size).level, 1u);
  EXPECT_EQ(chosen({.slo = {.tpot_ms = 8}}, size).level, 2u);
}

TEST(LevelChoice, WaitingInTheQueueCounts) {
  const LevelWish wish{.slo = {.time_ms = 980}};
  EXPECT_EQ(chosen(wish, {.prompt_tokens = 100, .max_tokens = 40, .waited_ms = 1}).level, 1u);
}

TEST(LevelChoice, WhatNoLevelKeepsIsAnsweredByTheFastestOrRefused) {
  const AnswerSize size{.prompt_tokens = 100, .max_tokens = 40};
  const LevelChoice late = chosen({.slo = {.time_ms = 300}}, size);
  EXPECT_EQ(late.level, 2u);
  EXPECT_FALSE(late.keeps);
  const Status strict = refused({.slo = {.time_ms = 300, .strict = true}}, size);
  EXPECT_EQ(strict.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(strict.message(), HasSubstr("40 needs first token after 50 ms"));
  // A named level is not replaced.
  EXPECT_FALSE(chosen({.level = "60", .slo = {.time_ms = 400}}, size).keeps);
  EXPECT_THAT(refused({.level = "60", .slo = {.time_ms = 400, .strict = true}}, size).message(),
              HasSubstr("60 needs"));
}

TEST(LevelChoice, UnknownLevelsAreListed) {
  EXPECT_EQ(refused({.level = "50"}).code(), StatusCode::kNotFound);
  EXPECT_THAT(refused({.level = "50"}).message(), HasSubstr("100, 60, 40"));
}

TEST(LevelChoice, TimesMustBeAboveZeroAndFit) {
  EXPECT_THAT(refused({.slo = {.ttft_ms = 0}}).message(), HasSubstr("slo.ttft_ms is 0"));
  EXPECT_THAT(refused({.slo = {.tpot_ms = -5}}).message(), HasSubstr("slo.tpot_ms is -5"));
  EXPECT_THAT(refused({.slo = {.ttft_ms = 900, .time_ms = 800}}).message(),
              HasSubstr("after the whole answer"));
}

TEST(LevelChoice, WholeTimeNeedsALength) {
  const LevelWish wish{.slo = {.time_ms = 800}};
  EXPECT_THAT(refused(wish).message(), HasSubstr("max_tokens"));
  const auto choice = choose_level(kThreeLevels, wish, {.prompt_tokens = 100}, 40);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->level, 1u);
  EXPECT_TRUE(choice->length_assumed);
}

TEST(LevelChoice, UsualLengthIsTheNinetiethPercentile) {
  EXPECT_FALSE(usual_length({}));
  EXPECT_EQ(usual_length({7}), 7);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i <= 100; ++i) lengths.push_back(100 - i);
  EXPECT_EQ(usual_length(lengths), 90);
}

}  // namespace
}  // namespace outrider

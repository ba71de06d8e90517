// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_choice.h"

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

// At 10 W, 980 ms are 9.8 J and 568 ms 5.68.
TEST(LevelChoice, LargestLevelThatKeepsTheEnergyAnswers) {
  const AnswerSize size{.prompt_tokens = 100, .max_tokens = 40, .watts = 10};
  EXPECT_EQ(chosen({.slo = {.energy_j = 9.8}}, size).level, 0u);
  EXPECT_EQ(chosen({.slo = {.energy_j = 9.7}}, size).level, 1u);
  EXPECT_EQ(chosen({.slo = {.energy_j = 5.6}}, size).level, 2u);
  EXPECT_DOUBLE_EQ(*chosen({.slo = {.energy_j = 9.7}}, size).time_limit_ms, 970);
  EXPECT_EQ(chosen({.slo = {.time_ms = 600, .energy_j = 9.8}}, size).level, 1u) << "both hold";
  AnswerSize waited = size;
  waited.waited_ms = 500;
  EXPECT_EQ(chosen({.slo = {.energy_j = 9.8}}, waited).level, 0u) << "waiting computes nothing";
}

TEST(LevelChoice, EnergyNeedsThePowerAndALength) {
  const LevelWish wish{.slo = {.energy_j = 5}};
  EXPECT_THAT(refused(wish, {.prompt_tokens = 100, .max_tokens = 40}).message(),
              HasSubstr("--power-file"));
  EXPECT_THAT(refused(wish, {.prompt_tokens = 100, .watts = 10}).message(),
              HasSubstr("slo.energy_j allows 500 ms"));
  EXPECT_THAT(refused({.slo = {.energy_j = -1}}).message(), HasSubstr("slo.energy_j is -1"));
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

TEST(LevelChoice, SharesAreOfWhatTheFullModelTakes) {
  const AnswerSize size{.prompt_tokens = 100, .waited_ms = 1e6};
  EXPECT_EQ(chosen({.slo = {.ttft_share = 1, .tpot_share = 1}}, size).level, 0u);
  EXPECT_EQ(chosen({.slo = {.tpot_share = 0.61}}, size).level, 1u);
  EXPECT_EQ(chosen({.slo = {.tpot_share = 0.59}}, size).level, 2u);
  EXPECT_EQ(chosen({.slo = {.ttft_share = 0.3, .tpot_share = 0.9}}, size).level, 2u);
  EXPECT_FALSE(chosen({.slo = {.ttft_share = 0.1}}, size).keeps);
  for (const double share : {0.0, -0.5, 1.01}) {
    EXPECT_THAT(refused({.slo = {.ttft_share = share}}).message(), HasSubstr("slo.ttft_share is"));
  }
}

// An answer that may be unverified by the deadline is the full model's in the end, however long it
// takes.
TEST(LevelChoice, ADeadlineOfWhatMayBeUnverifiedChoosesNoLevel) {
  const LevelWish wish{.slo = {.time_ms = 1, .unverified = true}};
  const LevelChoice choice = chosen(wish, {.prompt_tokens = 100});
  EXPECT_EQ(choice.level, 0u);
  EXPECT_TRUE(choice.keeps);
  EXPECT_FALSE(choice.length_assumed);
  EXPECT_EQ(chosen({.level = "60", .slo = wish.slo}, {.prompt_tokens = 100}).level, 1u);
  EXPECT_THAT(refused({.slo = {.unverified = true}}).message(), HasSubstr("Remedy: time_ms"));
  for (const Slo& beside : {Slo{.strict = true}, Slo{.ttft_ms = 1}, Slo{.tpot_ms = 1}}) {
    Slo slo = beside;
    slo.time_ms = 8;
    slo.unverified = true;
    EXPECT_THAT(refused({.slo = slo}).message(), HasSubstr("slo.unverified beside slo."));
  }
}

// Streamed layers have to be read for a prompt of any length.
TEST(LevelChoice, APromptTakesAtLeastAPass) {
  const std::vector<LevelProfile> streamed = {{"100", 1, 60, 60}, {"60", 0.5, 4, 4}};
  const auto ttft = [&](std::int64_t tokens) {
    return choose_level(streamed, {}, {.prompt_tokens = tokens}, std::nullopt)->predicted.ttft_ms;
  };
  EXPECT_EQ(ttft(10), 60);
  EXPECT_EQ(ttft(200), 200);
  const auto of_share = [&](double share) {
    return choose_level(streamed, {.slo = {.ttft_share = share}}, {.prompt_tokens = 10},
                        std::nullopt)
        ->level;
  };
  EXPECT_EQ(of_share(1), 0u);
  EXPECT_EQ(of_share(0.5), 1u);
}

TEST(LevelChoice, ACourseNamesLevelsAndTheTokensBetweenThem) {
  const LevelChoice choice = chosen({.level = "100,12:40"}, {.prompt_tokens = 100});
  EXPECT_EQ(choice.level, 0u);
  ASSERT_EQ(choice.then.size(), 1u);
  EXPECT_EQ(choice.then[0].from_token, 12);
  EXPECT_EQ(choice.then[0].level, 2u);
  const LevelChoice longer = chosen({.level = "40,12:60,13:100"}, {.prompt_tokens = 100});
  ASSERT_EQ(longer.then.size(), 2u);
  EXPECT_EQ(longer.then[1].from_token, 13);
  EXPECT_EQ(longer.then[1].level, 0u);
  EXPECT_TRUE(longer.may_change());
  EXPECT_FALSE(chosen({.level = "60"}, {}).may_change());
  std::string most = "100", more;
  for (std::size_t i = 1; i <= LevelCourse::kMaxParts; ++i) most += "," + std::to_string(i) + ":60";
  EXPECT_EQ(chosen({.level = most}, {}).then.size(), LevelCourse::kMaxParts);
  more = most + ",1000:100";
  EXPECT_EQ(refused({.level = more}).code(), StatusCode::kInvalidArgument);
  for (const char* level : {"100,", "100,12", "100,0:40", "100,-1:40", "100,1x:40",
                            "100,1:", "100,99999999999999999999:40", "100,12:60,12:40",
                            "100,12:60,", ",", "100,12:60,9:40"}) {
    EXPECT_EQ(refused({.level = level}).code(), StatusCode::kInvalidArgument) << level;
  }
  EXPECT_EQ(refused({.level = "100,1:7"}).code(), StatusCode::kNotFound);
}

TEST(LevelChoice, OnlyALevelThatWasChosenForATimeMaySwitch) {
  const AnswerSize size{.prompt_tokens = 100, .max_tokens = 40};
  EXPECT_TRUE(chosen({.slo = {.time_ms = 980}}, size).may_switch);
  EXPECT_EQ(chosen({.slo = {.time_ms = 980}}, size).expected_tokens, 40);
  EXPECT_FALSE(chosen({.slo = {.time_ms = 370}}, size).may_switch) << "there is none below it";
  EXPECT_FALSE(chosen({.slo = {.ttft_ms = 300}}, size).may_switch);
  EXPECT_FALSE(chosen({.level = "60", .slo = {.time_ms = 980}}, size).may_switch);
  EXPECT_FALSE(chosen({.slo = {.time_ms = 980, .unverified = true}}, size).may_switch);
}

// 50 tokens are there, 30 are left. At their profiles: 600 ms in full; at 60, 50 to read and 360 to
// write; at 40, 25 and 240.
TEST(LevelChoice, AnAnswerThatFallsBehindGoesOnWithTheLargestLevelThatKeepsItsTime) {
  const auto level = [](double time_left_ms, double tpot_ms = 20, std::int64_t text = 50) {
    return level_to_go_on_with(
        kThreeLevels, 0,
        {.text_tokens = text, .tokens_left = 30, .time_left_ms = time_left_ms, .tpot_ms = tpot_ms});
  };
  EXPECT_EQ(level(600), std::nullopt) << "it keeps its time";
  EXPECT_EQ(level(599), 1u);
  EXPECT_EQ(level(410), 1u);
  EXPECT_EQ(level(409), 2u);
  EXPECT_EQ(level(200), 2u) << "too late, but soonest";
  EXPECT_EQ(level(820, 40), 1u) << "twice as slow as its profile, and so are the others";
  EXPECT_EQ(level(819, 40), 2u);
  EXPECT_EQ(level(500, 20, 10'000), std::nullopt) << "reading would take longer than what is left";
  EXPECT_EQ(level(0), std::nullopt) << "the time is over";
}

TEST(LevelChoice, OnlyALevelThatWasChosenForATimeLeavesLoops) {
  const AnswerSize size{.prompt_tokens = 100, .max_tokens = 40};
  EXPECT_TRUE(chosen({.slo = {.time_ms = 370}}, size).leaves_loops);
  EXPECT_TRUE(chosen({.level = "auto", .slo = {.tpot_ms = 5}}, size).leaves_loops);
  EXPECT_FALSE(chosen({.level = "40"}, size).leaves_loops);
  EXPECT_FALSE(chosen({.level = "40", .slo = {.time_ms = 370}}, size).leaves_loops);
  EXPECT_FALSE(chosen({}, size).leaves_loops);
  EXPECT_FALSE(chosen({.slo = {.time_ms = 370, .unverified = true}}, size).leaves_loops);
}

TEST(LevelChoice, LevelsBelowTheLeastQualityAreLeftOut) {
  std::vector<LevelProfile> levels = kThreeLevels;
  levels[1].quality = 0.5;
  levels[2].quality = 0.9;
  const AnswerSize size{.prompt_tokens = 100, .max_tokens = 40};
  const LevelWish wish{.slo = {.time_ms = 700, .min_quality = 0.8}};
  EXPECT_EQ(choose_level(levels, wish, size, {})->level, 2u) << "60 would keep the time, too";
  EXPECT_EQ(level_to_go_on_with(levels, 0,
                                {.text_tokens = 50,
                                 .tokens_left = 30,
                                 .time_left_ms = 500,
                                 .tpot_ms = 20,
                                 .least_quality = 0.8}),
            2u);
  levels[2].quality = 0.7;
  const LevelChoice choice = *choose_level(levels, wish, size, {});
  EXPECT_EQ(choice.level, 0u);
  EXPECT_FALSE(choice.keeps);
  EXPECT_FALSE(choice.may_switch);
  LevelWish strict = wish;
  strict.slo.strict = true;
  EXPECT_THAT(choose_level(levels, strict, size, {}).status().message(),
              HasSubstr("below a quality of 0.8 (slo.min_quality) are 60, 40"));
}

}  // namespace
}  // namespace outrider

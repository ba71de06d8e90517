// SPDX-License-Identifier: Apache-2.0
#include "edge_client/doctor/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(DiagnosisTest, ASpeedUpIsTheRatioOfTotalsWithStudentsInterval) {
  // Shares of the totals: 0.4 and 1.6 against 1 and 1; standard error 0.6.
  const std::vector<Trial> trials = {{10, 10}, {40, 10}};
  const SpeedUp found = speed_up(trials);
  EXPECT_NEAR(found.value, 2.5, 1e-9);
  EXPECT_NEAR(std::log(found.interval.high / 2.5), 12.706 * 0.6, 1e-3);
  EXPECT_NEAR(found.interval.low * found.interval.high, 6.25, 1e-9);
}

TEST(DiagnosisTest, AnIntervalIsSettledOnceItIsNarrow) {
  EXPECT_FALSE(is_settled(speed_up(std::vector<Trial>{{10, 10}, {40, 10}, {20, 15}})));
  EXPECT_TRUE(is_settled(speed_up(std::vector<Trial>{{20, 10}, {40, 20.1}, {30, 14.9}})));
}

TEST(DiagnosisTest, TheSameGainEachTimeIsAdvised) {
  const std::vector<Trial> trials = {{16, 10}, {33, 20}, {24, 15}, {16.2, 10}};
  const Advice advice = advise({.who = {}, .strategy = Strategy::kMirror, .gamma = 5}, trials);
  EXPECT_TRUE(advice.drafts);
  EXPECT_THAT(verdict_of(advice), HasSubstr("use --strategy mirror --spec-draft-n-max 5"));
  EXPECT_THAT(verdict_of(advice), HasSubstr("expect 1.62 x"));
  EXPECT_EQ(to_json(advice)["strategy"].get<std::string>(), "mirror");
}

TEST(DiagnosisTest, ALossIsAdvisedAgainst) {
  const Advice advice = advise({.who = {}, .strategy = Strategy::kSd, .gamma = 3},
                               std::vector<Trial>{{10, 16}, {20, 33}, {15, 24}, {10, 16.2}});
  EXPECT_THAT(verdict_of(advice), HasSubstr("do not draft. The best way tried"));
  EXPECT_THAT(verdict_of(advice), HasSubstr("Remedy: --strategy ar."));
  EXPECT_TRUE(to_json(advice)["decided"].get<bool>());
}

TEST(DiagnosisTest, AGainThatMayBeNoneIsNotAdvised) {
  const std::vector<Trial> trials = {{10, 12}, {20, 10}, {10, 11}};
  const Advice advice = advise({.who = {}, .strategy = Strategy::kSd, .gamma = 3}, trials);
  EXPECT_GT(advice.expected.value, 1);
  EXPECT_FALSE(advice.drafts);
  EXPECT_THAT(verdict_of(advice), HasSubstr("not decided"));
  EXPECT_THAT(verdict_of(advice), Not(HasSubstr("do not draft")));
  EXPECT_THAT(verdict_of(advice), HasSubstr("until then --strategy ar."));
  EXPECT_FALSE(to_json(advice)["decided"].get<bool>());
  EXPECT_EQ(to_json(advice)["strategy"].get<std::string>(), "ar");
}

TEST(DiagnosisTest, WhoDraftsIsNamedByTheFlagsThatAskForIt) {
  EXPECT_EQ(name_of({.who = "--draft-at server", .strategy = {}}), "--draft-at server");
  EXPECT_EQ(name_of({.who = "--draft-at auto", .strategy = Strategy::kMirror, .gamma = 8}),
            "--draft-at auto --strategy mirror --spec-draft-n-max 8");
  EXPECT_EQ(name_of({.who = {}, .strategy = Strategy::kAr}), "--strategy ar");
}

TEST(DiagnosisTest, OnADeviceNobodyDraftsAcrossALink) {
  Advice advice = advise({.who = "--draft-level 50", .strategy = {}},
                         std::vector<Trial>{{16, 10}, {33, 20}, {24, 15}, {16.2, 10}});
  advice.where = Where::kDevice;
  EXPECT_EQ(verdict_of(advice).substr(0, 73),
            "On this device: use --draft-level 50, expect 1.62 x decoding without a dr");
  EXPECT_TRUE(to_json(advice)["strategy"].is_null());
  EXPECT_EQ(to_json(advice)["tried"].get<std::string>(), "--draft-level 50");
  advice.drafts = false;
  advice.expected.interval = {0.9, 0.95};
  advice.plain = {.who = "--draft-source none", .strategy = {}};
  EXPECT_THAT(verdict_of(advice), HasSubstr("Remedy: --draft-source none."));
}

TEST(DiagnosisTest, SurroundingsAreThoseOfAllAnswersTogether) {
  AnswerRecord first;
  first.stats.draft_steps = 3;
  first.stats.draft_compute = from_ms(30);
  first.stats.passes_by_rows = {1, 2};
  first.stats.target_compute = from_ms(100);
  first.stats.first_verdict.compute = from_ms(40);
  first.stats.completion_tokens = 6;
  first.stats.num_draft_tokens = 4;
  first.stats.num_accepted_tokens = 3;
  first.traffic = TrafficRecord{.bytes = {.framed_up = 120, .framed_down = 40}};
  AnswerRecord second;
  second.stats.passes_by_rows = {1};
  second.stats.target_compute = from_ms(20);
  second.stats.completion_tokens = 2;
  first.joules = 3;  // of six tokens; the second one's energy was not told
  const std::vector<AnswerRecord> answers = {first, second};
  const Surroundings found = surroundings_of(answers, {30, 10, 20});
  EXPECT_EQ(found.rtt_ms, 20);
  EXPECT_EQ(found.jitter_ms, 10);
  EXPECT_EQ(found.step_ms, 10);
  EXPECT_EQ(found.pass_ms, 20);
  EXPECT_EQ(found.acceptance, 0.75);
  EXPECT_EQ(found.bytes_up, 15);
  EXPECT_EQ(found.bytes_down, 5);
  EXPECT_EQ(found.joules, 0.5);
  EXPECT_THAT(to_text(found), HasSubstr("energy      0.5 J a token"));
  EXPECT_EQ(to_json(found)["joules_per_token"].get<double>(), 0.5);
}

TEST(DiagnosisTest, WhatWasNotSeenIsSaidToBeSo) {
  const Surroundings found = surroundings_of({}, {});
  EXPECT_THAT(to_text(found), testing::Not(testing::HasSubstr("energy")));
  EXPECT_THAT(to_text(found), HasSubstr("round trip not seen"));
  EXPECT_TRUE(to_json(found)["rtt_ms"].is_null());
}

TEST(DiagnosisTest, ARateThatNoRoundTripShowedIsALowerBound) {
  Surroundings found;
  EXPECT_THAT(to_text(found), HasSubstr("bandwidth   not measured"));
  EXPECT_TRUE(to_json(found)["bandwidth"].is_null());
  found.speed = LinkSpeed{.up = {.bytes_per_second = 1.25e6},
                          .down = {.bytes_per_second = 1e9, .least = true}};
  EXPECT_THAT(to_text(found), HasSubstr("10 Mbit/s up, at least 8e+03 Mbit/s down"));
  EXPECT_EQ(to_json(found)["bandwidth"]["up_mbit_s"].get<double>(), 10);
}

}  // namespace
}  // namespace outrider

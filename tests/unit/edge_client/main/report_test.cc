// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/json.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

AnswerReport speculated() {
  AnswerReport report;
  report.text = "héllo";
  report.ids = {1, 2, 3, 4, 5};
  report.finish.ending = Ending::kLength;
  report.speculation = "ON (draft d, γ=2)";
  DecodingStats& stats = report.stats;
  const TimePoint begin{};
  stats.started = begin;
  stats.first_token = begin + from_ms(100);
  stats.last_token = begin + from_ms(500);
  stats.prompt_tokens = 7;
  stats.completion_tokens = 5;
  stats.passes = 2;
  stats.count_round(2, 2, 2);
  stats.count_round(2, 2, 1);
  stats.round_trips = {from_ms(10), from_ms(30), from_ms(20)};
  report.traffic = {.payload_up = 40, .payload_down = 90, .framed_up = 50, .framed_down = 100};
  return report;
}

TEST(Report, JsonHasTheFiguresWithTheirUsualDefinitions) {
  const Json json = *parse_json(stats_json(speculated()), "report");
  EXPECT_EQ(json["text"], "héllo");
  EXPECT_EQ(json["ids"], Json({1, 2, 3, 4, 5}));
  EXPECT_EQ(json["stop_reason"], "length");
  EXPECT_DOUBLE_EQ(json["ttft_ms"].get<double>(), 100);
  EXPECT_DOUBLE_EQ(json["tpot_ms"].get<double>(), 100);
  EXPECT_DOUBLE_EQ(json["tokens_per_s"].get<double>(), 10);
  EXPECT_DOUBLE_EQ(json["tokens_per_pass"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(json["spec_decode_acceptance_rate"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(json["spec_decode_acceptance_length"].get<double>(), 2.5);
  EXPECT_EQ(json["spec_decode_per_position_acceptance_rates"], Json({1.0, 0.5}));
  EXPECT_DOUBLE_EQ(json["rtt_ms"].get<double>(), 20);
  EXPECT_DOUBLE_EQ(json["bytes"]["per_token_up"].get<double>(), 10);
}

TEST(Report, WhatIsNotKnownIsNullAndNeverADivisionByZero) {
  AnswerReport nothing;
  nothing.finish = {Ending::kFailed, unavailable("no server")};
  const Json json = *parse_json(stats_json(nothing), "report");
  for (const char* key : {"ttft_ms", "tpot_ms", "tokens_per_s", "rtt_ms", "bytes", "draft",
                          "spec_decode_acceptance_rate"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_EQ(json["stopped_by"], "no server");
  EXPECT_THAT(stats_block(nothing), HasSubstr("no server"));
}

TEST(Report, TextThatIsNotUtf8StaysJson) {
  AnswerReport report = speculated();
  report.text = "a\xff";
  EXPECT_TRUE(parse_json(stats_json(report), "report").ok());
}

TEST(Report, TheBlockShowsLinkFiguresForALinkOnly) {
  AnswerReport report = speculated();
  EXPECT_THAT(stats_block(report), HasSubstr("10.0 up, 20.0 down"));
  EXPECT_THAT(stats_block(report), HasSubstr("75.0 % of 4 drafted; by position 1.00 0.50"));
  report.traffic.reset();
  EXPECT_THAT(stats_block(report), Not(HasSubstr("bytes")));
}

TEST(Report, StopStringsAreQuoted) {
  AnswerReport report = speculated();
  report.finish.ending = Ending::kStopString;
  report.stop_string = "\nUser:";
  EXPECT_EQ(why_stopped(report), "the stop string \"\\nUser:\"");
}

}  // namespace
}  // namespace outrider

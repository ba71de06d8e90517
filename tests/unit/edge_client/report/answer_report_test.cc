// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/json.h"
#include "common/base/json_record.h"
#include "edge_client/metrics/figure_recorder.h"
#include "edge_client/report/answer_ledger.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Two rounds of two drafted tokens: three of the four stand.
DecodingStats speculated_stats() {
  const TimePoint begin{};
  FigureRecorder recorder;
  recorder.on_start(7, begin);
  const auto verdict = [&](const VerifiedRound& round, std::size_t tokens, double round_trip_ms,
                           double at_ms) {
    recorder.on_verdict({.verdict = {},
                         .round = round,
                         .answer_tokens = tokens,
                         .request_round_trip = from_ms(round_trip_ms)},
                        begin + from_ms(at_ms));
  };
  verdict({.nodes = 2, .accepted = 2, .drafted = {{1}, {1}}, .accepted_branch = {0, 0}}, 3, 10,
          100);
  verdict({.nodes = 2, .accepted = 1, .drafted = {{1}, {1}}, .accepted_branch = {0}}, 5, 30, 500);
  return recorder.stats();
}

AnswerReport speculated() {
  AnswerReport report;
  report.record.text = "héllo";
  report.record.ids = {1, 2, 3, 4, 5};
  report.finish.ending = Ending::kLength;
  report.record.speculation = "ON (draft d, γ=2)";
  report.record.stats = speculated_stats();
  report.record.traffic = TrafficRecord::of(
      {.payload_up = 40, .payload_down = 90, .framed_up = 50, .framed_down = 100}, 5);
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
  EXPECT_DOUBLE_EQ(json["rtt_ms"].get<double>(), 30);
  EXPECT_DOUBLE_EQ(json["bytes"]["per_token_up"].get<double>(), 10);
}

TEST(Report, TheBooksHaveWhatTheAnswerTook) {
  AnswerReport report = speculated();
  AnswerRecord& record = report.record;
  record.stats.rows = 9;
  record.stats.target_compute = from_ms(80);
  record.stats.draft_compute = from_ms(20);
  record.failover.offline_compute = from_ms(30);
  record.joules = 2.5;
  const LedgerEntry entry = ledger_entry(record);
  EXPECT_EQ(entry.prompt_tokens, 7u);
  EXPECT_EQ(entry.completion_tokens, 5u);
  EXPECT_EQ(entry.passes, 2u);
  EXPECT_EQ(entry.rows, 9u);
  EXPECT_EQ(entry.rows_died, 1u);
  EXPECT_EQ(entry.device, from_ms(80));
  EXPECT_EQ(entry.own->target, from_ms(30));
  EXPECT_EQ(entry.own->draft, from_ms(20));
  EXPECT_EQ(entry.bytes->up, 50u);
  EXPECT_EQ(entry.joules, 2.5);
  EXPECT_EQ((*parse_json(stats_json(report), "report"))["target_rows_died"], 1);
}

// Its server knew the prompt and what an earlier stream had answered.
TEST(Report, AReconnectsCachedPrefixIsNoMoreThanThePrompt) {
  AnswerRecord record = speculated().record;
  record.stats.cached_tokens = 12;
  EXPECT_EQ(ledger_entry(record).cached_tokens, 7u);
  const Prices prices{.date = "2026-01-31", .api = {.input = 2, .output = 4, .cached_input = 1}};
  EXPECT_NEAR(*bill_of(&prices, ledger_entry(record))->api, (7 * 1 + 5 * 4) / 1e6, 1e-12);
}

TEST(Report, PeopleReadEnergyAndCost) {
  AnswerReport report = speculated();
  EXPECT_THAT(stats_block(report), AllOf(Not(HasSubstr("cost")), Not(HasSubstr("energy"))));
  report.record.joules = 2.5;
  report.record.bill =
      Bill{.api = 0.000125, .device = {}, .link = 0.0002, .power = {}, .prices_of = "2026-01-31"};
  EXPECT_THAT(stats_block(report),
              AllOf(HasSubstr("2.50 J, 0.500 J a token"),
                    HasSubstr("$0.000125 by an API's prices, $0.000200 of the link (prices of "
                              "2026-01-31)")));
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
  EXPECT_THAT(stats_block(nothing), HasSubstr("stopped by            an error\n"));
}

TEST(Report, TextThatIsNotUtf8StaysJson) {
  AnswerReport report = speculated();
  report.record.text = "a\xff";
  EXPECT_TRUE(parse_json(stats_json(report), "report").ok());
}

TEST(Report, TheBlockShowsLinkFiguresForALinkOnly) {
  AnswerReport report = speculated();
  EXPECT_THAT(stats_block(report), HasSubstr("10.0 up, 20.0 down"));
  EXPECT_THAT(stats_block(report), HasSubstr("75.0 % of 4 drafted; by position 1.00 0.50"));
  report.record.traffic.reset();
  EXPECT_THAT(stats_block(report), Not(HasSubstr("bytes")));
}

TEST(Report, StopStringsAreQuoted) {
  AnswerReport report = speculated();
  report.finish.ending = Ending::kStopString;
  report.stop_string = "\nUser:";
  EXPECT_EQ(why_stopped(report), "the stop string \"\\nUser:\"");
}

TEST(PredraftReport, TellsWhatDraftingAheadWasGoodFor) {
  PredraftStats stats;
  EXPECT_EQ(predraft_lines(stats), "");
  stats.count({.walked = 2, .named = true, .drafted = 4, .exit = 1}, 4);
  stats.count({.walked = 2, .named = true, .drafted = 2, .exit = {}}, 4);
  stats.count({.walked = 2, .named = true, .in_step = true, .exit = {}}, 4);
  stats.count({.walked = 1, .exit = {}}, 4);
  stats.synced = 1;
  stats.ahead_nodes = 9;
  stats.ahead_dead = 3;
  const std::string lines = predraft_lines(stats);
  EXPECT_THAT(lines, testing::HasSubstr("25 % hits, 25 % partial, 25 % late, 25 % misses"));
  EXPECT_THAT(lines, testing::HasSubstr("2 by the draft, 1 by exit 1")) << "of no known layer";
  stats.exit_layers = {3, 8};
  EXPECT_THAT(predraft_lines(stats), testing::HasSubstr("1 by the exit after layer 8"));
  EXPECT_THAT(lines, testing::HasSubstr("9 nodes, 3 died unused; no wait for a round after 25 %"));
  EXPECT_EQ(write_json(stats)["partial_by_length"], Json::array({0, 1}));
  EXPECT_EQ(write_json(stats)["wanted_tokens"], 16);
  EXPECT_EQ(write_json(stats)["missing_tokens"], 10);
}

TEST(Explain, DividesTheTimeAndNamesEachChange) {
  DecodingStats stats;
  stats.time_spent = {.first = from_ms(10), .drafting = from_ms(30), .target = from_ms(60)};
  stats.plan_changes.push_back(
      {.token = 7, .speculates = false, .gamma = 4, .wait_for = 0, .reason = "it loses"});
  const std::string block = explain_block(stats);
  EXPECT_THAT(block, testing::HasSubstr("60.0 ms  60.0 %"));
  EXPECT_THAT(block, testing::HasSubstr("waiting for the draft"));
  EXPECT_THAT(block, testing::HasSubstr("token 7: speculation off, because it loses"));
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/json_record.h"

namespace outrider {
namespace {

using testing::HasSubstr;

AnswerRecord full_record() {
  AnswerRecord record;
  record.text = "héllo";
  record.ids = {1, 2, 3};
  record.ending = Ending::kStopString;
  record.strategy = "fsd";
  record.draft = "d";
  record.stats.cached_tokens = 7;
  record.stats.ttft_ms = 12.5;
  record.stats.first_verdict = {.tokens = 2, .rows = 9, .compute = from_ms(3.5)};
  record.stats.target_compute = from_ms(250);
  record.stats.acceptance_per_position = {1, 0.5};
  record.stats.accepted_per_branch = {{3, 1}, {2}};
  record.traffic = TrafficRecord{.bytes = {.payload_up = 40, .framed_down = 9}, .per_token_up = 2};
  record.streamed = StreamedRecord{.passes = 3, .bytes_read = 1 << 20, .reading = from_ms(7)};
  record.unverified = UnverifiedRecord{.text = "hé",
                                       .verified_tokens = 1,
                                       .after_ms = 79.5,
                                       .outcome = UnverifiedOutcome::kConfirmed};
  record.joules = 2.5;
  record.bill =
      Bill{.api = 0.001, .device = {}, .link = 0.0002, .power = {}, .prices_of = "2026-01-31"};
  record.stats.predraft.partial_by_length = {0, 4};
  record.stats.predraft.exit_layers = {3, 8};
  record.stats.predraft.synced_late = from_ms(1.5);
  record.stats.time_spent.link = from_ms(20);
  record.stats.plan_changes = {
      {.token = 7, .speculates = false, .patience = from_ms(4), .reason = "r"}};
  return record;
}

TEST(AnswerRecordTest, WhatIsWrittenIsReadBack) {
  const AnswerRecord record = full_record();
  const Result<AnswerRecord> read = read_answer_record(to_line(record), "line");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(to_line(*read), to_line(record));
  EXPECT_EQ(read->ending, Ending::kStopString);
  EXPECT_EQ(read->strategy, "fsd");
  EXPECT_EQ(read->draft, "d");
  EXPECT_EQ(read->stats.tpot_ms, std::nullopt);
  EXPECT_EQ(read->stats.first_verdict.compute, from_ms(3.5));
  EXPECT_EQ(read->stats.accepted_per_branch, (CountsByBranch{{3, 1}, {2}}));
  EXPECT_EQ(read->traffic->bytes.framed_down, 9u);
  EXPECT_EQ(read->unverified->outcome, UnverifiedOutcome::kConfirmed);
  EXPECT_EQ(read->bill->link, 0.0002);
  EXPECT_EQ(read->bill->device, std::nullopt);
  EXPECT_EQ(read->stats.predraft.exit_layers, (std::vector<std::int32_t>{3, 8}));
  EXPECT_EQ(read->stats.predraft.synced_late, from_ms(1.5));
  ASSERT_EQ(read->stats.plan_changes.size(), 1u);
  EXPECT_EQ(read->stats.plan_changes[0].patience, from_ms(4));
}

TEST(AnswerRecordTest, EveryFieldThatIsMissingIsNamed) {
  const Json whole = write_json(full_record());
  for (const auto& [key, value] : whole.items()) {
    Json line = whole;
    line.erase(key);
    const Result<AnswerRecord> read = read_answer_record(line.dump(), "line");
    ASSERT_FALSE(read.ok()) << key;
    EXPECT_THAT(read.status().message(), HasSubstr('"' + key + '"'));
  }
}

TEST(AnswerRecordTest, AFieldOfAnotherTypeIsNamedWithItsPath) {
  Json line = write_json(full_record());
  line["bytes"]["payload_up"] = -1;
  EXPECT_THAT(read_answer_record(line.dump(), "line").status().message(),
              HasSubstr("\"bytes.payload_up\""));
  line = write_json(full_record());
  line["mode"] = "magic";
  EXPECT_THAT(read_answer_record(line.dump(), "line").status().message(), HasSubstr("\"mode\""));
  line = write_json(full_record());
  line["ids"] = {1, "two"};
  EXPECT_THAT(read_answer_record(line.dump(), "line").status().message(), HasSubstr("\"ids\""));
  line["ids"] = {std::int64_t{1} << 40};
  EXPECT_FALSE(read_answer_record(line.dump(), "line").ok()) << "an id has 32 bits";
}

TEST(AnswerRecordTest, WhatIsNoRecordIsRefused) {
  for (const char* line : {"", "[]", "3", "null", "{"}) {
    EXPECT_EQ(read_answer_record(line, "line").status().code(), StatusCode::kDataLoss) << line;
  }
}

// Scripts of users read these keys.
TEST(AnswerRecordTest, TheKeysStay) {
  const Json json = write_json(full_record());
  for (const char* key : {"text",
                          "ids",
                          "stop_reason",
                          "stopped_by",
                          "strategy",
                          "speculation",
                          "target",
                          "arithmetic",
                          "draft",
                          "prompt_tokens",
                          "cached_tokens",
                          "completion_tokens",
                          "ttft_ms",
                          "tpot_ms",
                          "decode_ms",
                          "first_verdict",
                          "tokens_per_s",
                          "target_passes",
                          "target_rows",
                          "target_rows_died",
                          "target_compute_ms",
                          "target_queued_ms",
                          "tokens_per_pass",
                          "spec_decode_num_drafts",
                          "spec_decode_num_draft_tokens",
                          "spec_decode_num_accepted_tokens",
                          "spec_decode_acceptance_rate",
                          "spec_decode_acceptance_length",
                          "spec_decode_per_position_acceptance_rates",
                          "draft_steps",
                          "draft_ms",
                          "draft_pace_emulated",
                          "rtt_ms",
                          "reconnects",
                          "bytes",
                          "joules",
                          "bill",
                          "predraft",
                          "time_spent_ms",
                          "plan_changes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(PredraftStatsTest, SumsEveryCount) {
  PredraftStats sum{.verdicts = 1,
                    .partial_by_length = {1},
                    .synced = 2,
                    .synced_late = from_ms(3),
                    .abandoned_steps = 3};
  sum += {.verdicts = 4,
          .partial_by_length = {1, 5},
          .exit_layers = {2},
          .synced_late = from_ms(4),
          .abandoned_steps = 6};
  EXPECT_EQ(sum.verdicts, 5u);
  EXPECT_EQ(sum.partial_by_length, (Counts{2, 5}));
  EXPECT_EQ(sum.exit_layers, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(sum.synced, 2u);
  EXPECT_EQ(sum.synced_late, from_ms(7));
  EXPECT_EQ(sum.abandoned_steps, 9u);
}

}  // namespace
}  // namespace outrider

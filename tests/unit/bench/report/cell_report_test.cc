// SPDX-License-Identifier: Apache-2.0
#include "bench/report/cell_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;

AnswerRecord record_of(double ttft_ms, double decode_ms) {
  AnswerRecord record;
  record.strategy = "mirror";
  record.stats.ttft_ms = ttft_ms;
  record.stats.decode_ms = decode_ms;
  record.stats.completion_tokens = 10;
  return record;
}

TEST(SpreadTest, IsThatOfTheSamples) {
  EXPECT_FALSE(spread_of({}).has_value());
  const Spread spread = *spread_of({4, 1, 3, 2});
  EXPECT_EQ(spread.count, 4u);
  EXPECT_DOUBLE_EQ(spread.mean.value, 2.5);
  EXPECT_NEAR(spread.deviation, 1.29099, 1e-5);
  EXPECT_EQ(spread.p50, 2);
  EXPECT_GE(spread.mean.interval->low, 1);
  EXPECT_LE(spread.mean.interval->high, 4);
  EXPECT_EQ(spread_of({7})->deviation, 0);
}

TEST(SpeculationShareTest, CountsTokensBetweenChanges) {
  AnswerRecord record = record_of(1, 1);
  EXPECT_EQ(speculation_share(record), 1);
  record.stats.plan_changes = {{.token = 4, .speculates = false, .reason = ""},
                               {.token = 8, .speculates = true, .reason = ""}};
  EXPECT_DOUBLE_EQ(speculation_share(record), 0.6);
  record.stats.plan_changes = {{.token = 40, .speculates = false, .reason = ""}};
  EXPECT_EQ(speculation_share(record), 1) << "behind the end";
  record.strategy = "ar";
  EXPECT_EQ(speculation_share(record), 0);
}

TEST(ServiceLimitsTest, EveryLimitCounts) {
  EXPECT_FALSE(ServiceLimits{}.any());
  EXPECT_TRUE(ServiceLimits{}.kept_by(record_of(100, 900)));
  EXPECT_TRUE((ServiceLimits{.e2el_ms = 1000}).kept_by(record_of(100, 900)));
  EXPECT_FALSE((ServiceLimits{.e2el_ms = 999}).kept_by(record_of(100, 900)));
  EXPECT_FALSE((ServiceLimits{.ttft_ms = 99}).kept_by(record_of(100, 900)));
  EXPECT_FALSE((ServiceLimits{.tpot_ms = 5}).kept_by(record_of(100, 900))) << "not known";
}

class CellReportTest : public testing::Test {
 protected:
  CellReportTest() {
    plan_.prompts = {"a", "b"};
    plan_.settings = {{.name = "lte"}};
    plan_.variants = {variant_of(Strategy::kAr), variant_of(Strategy::kMirror)};
    result_.link_kinds = {"modelled"};
    result_.cells = {{"lte", "ar", Strategy::kAr, {}, 0, "", 0},
                     {"lte", "mirror", Strategy::kMirror, {}, 0, "", 0}};
    for (std::size_t prompt = 0; prompt < 2; ++prompt) {
      for (std::size_t variant = 0; variant < 2; ++variant) {
        FinishedAnswer answer{.job = {0, variant, prompt, 0}};
        answer.answer.record = record_of(100, variant == 0 ? 2000 : 1000);
        answer.answer.record.stats.chunk_at = {from_ms(100), from_ms(150), from_ms(250)};
        answer.answer.record.stats.drafted_per_position = {4, 2};
        answer.answer.record.stats.accepted_per_position = {3};
        answer.answer.figures.decode_ms = *answer.answer.record.stats.decode_ms;
        answer.answer.figures.tokens = 9;
        answer.answer.figures.drafted = 4;
        answer.answer.figures.accepted = prompt == 0 ? 3 : 1;
        answer.answer.figures.predraft =
            PredraftStats{.verdicts = 10, .hits = prompt == 0 ? 9u : 5u};
        answer.answer.figures.wire_up = 100;
        answer.answer.record.stats.passes = 5;
        answer.answer.record.stats.num_drafts = 3;
        answer.answer.record.stats.first_verdict.compute = from_ms(20);
        answer.answer.record.stats.target_compute = from_ms(prompt == 0 ? 220 : 420);
        result_.cells[variant].answers.push_back(answer.answer.figures);
        result_.finished.push_back(answer);
      }
    }
  }

  GridPlan plan_;
  GridResult result_;
};

TEST_F(CellReportTest, CountsWhatMissedItsDeadline) {
  result_.finished[3].error = "UNAVAILABLE";
  const std::vector<CellReport> cells = cell_reports(plan_, result_, {.e2el_ms = 1500});
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].deadline_missed, 2u);
  EXPECT_EQ(cells[0].goodput, 0);
  EXPECT_EQ(cells[1].deadline_missed, 1u) << "one failed";
  EXPECT_EQ(cells[1].failures, 1u);
  EXPECT_EQ(cells[1].goodput, 0.5);
}

// A draft's expectation is never counted as verified, nor as there if it has no end yet.
TEST_F(CellReportTest, CountsWhatIsThereByADeadline) {
  plan_.prompts = {"a", "b", "c", "d", "e"};
  plan_.unverified_by_ms = 800;
  const FinishedAnswer answer = result_.finished[1];
  result_.finished.clear();
  for (const UnverifiedRecord& given :
       {UnverifiedRecord{.outcome = UnverifiedOutcome::kInTime},
        UnverifiedRecord{.whole = true, .outcome = UnverifiedOutcome::kConfirmed},
        UnverifiedRecord{.whole = true, .outcome = UnverifiedOutcome::kCorrected},
        UnverifiedRecord{.whole = false, .outcome = UnverifiedOutcome::kConfirmed},
        UnverifiedRecord{.whole = true}}) {
    result_.finished.push_back(answer);
    result_.finished.back().answer.record.unverified = given;
  }
  const std::vector<CellReport> cells = cell_reports(plan_, result_, {.e2el_ms = 800});
  EXPECT_FALSE(cells[0].by_deadline) << "plain decoding drafts nothing";
  const Json json = to_json(cells[1], RunClock::kVirtual)["by_deadline"];
  EXPECT_EQ(json.dump(), R"({"confirmed":1,"corrected":1,"unverified":3,"verified":1,"whole":4})");
}

TEST_F(CellReportTest, HoldsEveryFigure) {
  const std::vector<CellReport> cells = cell_reports(plan_, result_, {});
  const CellReport& mirror = cells[1];
  EXPECT_NEAR(mirror.over_ar->value, 2, 1e-9);
  EXPECT_EQ(mirror.e2el_ms->p50, 1100);
  EXPECT_EQ(mirror.inter_chunk_ms->count, 4u);
  EXPECT_DOUBLE_EQ(mirror.inter_chunk_ms->mean.value, 75);
  EXPECT_THAT(mirror.accepted_by_position, ElementsAre(0.75, 0));
  EXPECT_DOUBLE_EQ(mirror.use.target_ms, 300) << "the mean, without the prompt's";
  EXPECT_DOUBLE_EQ(mirror.use.first_target_ms, 20);
  EXPECT_DOUBLE_EQ(mirror.use.bytes, 100);
  EXPECT_DOUBLE_EQ(mirror.use.rounds, 3);
  const Json json = to_json(mirror, RunClock::kReal);
  EXPECT_EQ(json["use"]["passes"].get<double>(), 5);
  EXPECT_TRUE(json["cost"].is_null()) << "without prices";
  EXPECT_EQ(json["link"].get<std::string>(), "modelled");
  EXPECT_EQ(json["clock"].get<std::string>(), "real");
  EXPECT_EQ(json["samples"].size(), 2u);
}

// The bootstrap draws prompts: both bounds lie within the two prompts' own shares.
TEST_F(CellReportTest, AcceptanceAndExitHitsHaveIntervals) {
  const std::vector<CellReport> cells = cell_reports(plan_, result_, {});
  const CellReport& mirror = cells[1];
  ASSERT_TRUE(mirror.acceptance && mirror.acceptance->interval);
  EXPECT_DOUBLE_EQ(mirror.acceptance->value, 0.5);
  EXPECT_DOUBLE_EQ(mirror.acceptance->interval->low, 0.25);
  EXPECT_DOUBLE_EQ(mirror.acceptance->interval->high, 0.75);
  ASSERT_TRUE(mirror.exit_hit_rate && mirror.exit_hit_rate->interval);
  EXPECT_DOUBLE_EQ(mirror.exit_hit_rate->value, 0.7);
  EXPECT_DOUBLE_EQ(mirror.exit_hit_rate->interval->low, 0.5);
  const Json json = to_json(mirror, RunClock::kReal);
  EXPECT_DOUBLE_EQ(json["exit_hit_rate"]["high"].get<double>(), 0.9);
  EXPECT_DOUBLE_EQ(json["acceptance"]["low"].get<double>(), 0.25);
}

}  // namespace
}  // namespace outrider

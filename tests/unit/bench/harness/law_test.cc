// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/law.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

LawTerms terms() {
  return {.step_ms = 25,
          .pass_ms = 400,
          .one_way_ms = 50,
          .gamma = 4,
          .tau = 2,
          .left_rate = 0.25,
          .synced_rate = 0.5};
}

LawTerms nothing_ahead() {
  LawTerms all_left = terms();
  all_left.left_rate = 1;
  return all_left;
}

TEST(LawTest, Table4AndTheMirroredTerm) {
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kAr, terms()), 400);
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kSd, nothing_ahead()), (100 + 100 + 400) / 2.0);
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kFsd, terms()), (100 + 25 + 400) / 2.0);
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kMirror, terms()), (50 + 25 + 400) / 2.0);
  LawTerms never = terms();
  never.synced_rate = 0;
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kMirror, never), law_ms(Strategy::kFsd, never));
}

// A verifier that goes on alone pays in tokens per pass, not in waits.
TEST(LawTest, AMirrorThatWaitsForNothingPaysItsPassesAlone) {
  LawTerms eager = terms();
  eager.left_rate = 0.5;
  eager.alone_rate = 0.5;
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kMirror, eager), 400 / 2.0);
  eager.alone_rate = 0.4;
  EXPECT_NEAR(law_ms(Strategy::kMirror, eager), (0.1 * 100 + 0.1 * 100 + 400) / 2, 1e-9);
  eager.alone_rate = 0.9;
  EXPECT_DOUBLE_EQ(eager.waited_rate(), 0) << "sent before the verdict, and there too late";
}

// 100 tokens in 50 passes of 400 ms; per round 4 drafted.
GridCell cell(Strategy strategy, double tpot_ms) {
  AnswerFigures figures;
  figures.decode_ms = tpot_ms * 100;
  figures.tokens = 100;
  figures.passes = 50;
  figures.compute_ms = 50 * 400;
  figures.rounds = 50;
  figures.drafted = 200;
  return {"rtx-68m-7b", name_of(strategy), strategy, {figures}, 0, "ON"};
}

GridCell sd_cell(double tpot_ms, std::uint64_t hits = 0) {
  GridCell sd = cell(Strategy::kSd, tpot_ms);
  sd.answers[0].predraft =
      PredraftStats{.verdicts = 50, .wanted_tokens = 200, .missing_tokens = 200 - 4 * hits};
  return sd;
}

const PaperPace& rtx() {
  return paper_paces()[1];  // T_p 25.5, T_c 42
}

TEST(LawTest, ACellsOwnFiguresGiveItsResidual) {
  const std::optional<LawRow> row = law_of(sd_cell(300), rtx());
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->law_ms, (84 + 102 + 400) / 2.0);
  EXPECT_NEAR(row->residual(), 7.0 / 300, 1e-12);
}

TEST(LawTest, WhatAVerdictLeavesToDraftIsItsShareOfTheDrafting) {
  GridCell fsd = cell(Strategy::kFsd, 280);
  EXPECT_FALSE(law_of(fsd, rtx()).has_value()) << "nothing is known of its hits";
  fsd.answers[0].predraft =
      PredraftStats{.verdicts = 50, .wanted_tokens = 200, .missing_tokens = 60};
  const std::optional<LawRow> row = law_of(fsd, rtx());
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->terms.left_rate, 0.3);
  EXPECT_DOUBLE_EQ(row->terms.gamma, 4);
  fsd.answers[0].predraft->late_hits = 8;  // half of the step in work is done
  EXPECT_DOUBLE_EQ(law_of(fsd, rtx())->terms.left_rate, (60.0 - 4) / 200);
}

TEST(LawTest, AMirrorsPassesAreSyncedAloneOrWaitedFor) {
  GridCell mirror = cell(Strategy::kMirror, 230);
  mirror.answers[0].rounds = 40;
  mirror.answers[0].predraft =
      PredraftStats{.verdicts = 50, .wanted_tokens = 200, .missing_tokens = 60, .synced = 30};
  const std::optional<LawRow> row = law_of(mirror, rtx());
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->terms.synced_rate, 0.6);
  EXPECT_DOUBLE_EQ(row->terms.alone_rate, 0.2);
  EXPECT_NEAR(row->law_ms, (0.2 * 84 + 0.2 * 102 + 400) / 2, 1e-9);
}

TEST(LawTest, WhatPreDraftingSavedStandsBesideWhatItShould) {
  GridCell fsd = cell(Strategy::kFsd, 280);
  fsd.answers[0].predraft =
      PredraftStats{.verdicts = 50, .wanted_tokens = 200, .missing_tokens = 100};
  const std::vector<LawRow> rows = {*law_of(sd_cell(300), rtx()), *law_of(fsd, rtx())};
  const std::optional<FsdSaving> saving = fsd_saving(rows, "rtx-68m-7b");
  ASSERT_TRUE(saving.has_value());
  EXPECT_DOUBLE_EQ(saving->measured_ms, 20);
  EXPECT_DOUBLE_EQ(saving->law_ms, 0.5 * 4 * 25.5 / 2);
  EXPECT_FALSE(fsd_saving(rows, "jetson-68m-7b").has_value());
}

// The first round is drafted while the stream opens, by plain speculation too.
TEST(LawTest, WhatBothStrategiesDraftedAheadIsNoSaving) {
  GridCell fsd = cell(Strategy::kFsd, 280);
  fsd.answers[0].predraft =
      PredraftStats{.verdicts = 50, .wanted_tokens = 200, .missing_tokens = 100};
  const std::vector<LawRow> rows = {*law_of(sd_cell(300, 5), rtx()), *law_of(fsd, rtx())};
  EXPECT_NEAR(rows[0].law_ms, (84 + 0.9 * 102 + 400) / 2, 1e-9);
  EXPECT_NEAR(fsd_saving(rows, "rtx-68m-7b")->law_ms, (0.9 - 0.5) * 4 * 25.5 / 2, 1e-9);
}

TEST(LawTest, WhereNothingWasDraftedAheadThereIsNoSavingToMeet) {
  GridCell fsd = cell(Strategy::kFsd, 290);
  fsd.answers[0].predraft =
      PredraftStats{.verdicts = 50, .wanted_tokens = 200, .missing_tokens = 200};
  const std::vector<LawRow> rows = {*law_of(sd_cell(300), rtx()), *law_of(fsd, rtx())};
  EXPECT_FALSE(fsd_saving(rows, "rtx-68m-7b").has_value());
}

TEST(LawTest, AWrongTextHasNoLaw) {
  GridCell wrong = cell(Strategy::kAr, 400);
  wrong.mismatches = 1;
  EXPECT_FALSE(law_of(wrong, rtx()).has_value());
}

}  // namespace
}  // namespace outrider

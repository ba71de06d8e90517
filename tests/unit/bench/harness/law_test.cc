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
  LawTerms late = terms();
  late.late_ms = 60;
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kMirror, late), (50 + 0.5 * 60 + 25 + 400) / 2.0)
      << "a round that left before the verdict, and came after the pass";
  LawTerms never = terms();
  never.synced_rate = 0;
  EXPECT_DOUBLE_EQ(law_ms(Strategy::kMirror, never), law_ms(Strategy::kFsd, never));
}

// A verifier that continues alone pays in tokens per pass, not in waits.
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

// 100 tokens in 50 passes of five rows, 442 ms each as asked; per round 4 drafted.
GridCell cell(Strategy strategy, double tpot_ms) {
  AnswerFigures figures;
  figures.decode_ms = tpot_ms * 100;
  figures.tokens = 100;
  figures.passes = 50;
  figures.compute_ms = 50 * 460;
  figures.passes_by_rows = {0, 0, 0, 0, 50};
  figures.rounds = 50;
  figures.drafted = 200;
  return {"rtx-68m-7b printed", name_of(strategy), strategy, {figures}, 0, "ON"};
}

PredraftStats predraft(std::uint64_t missing, std::uint64_t synced = 0) {
  return {.verdicts = 50, .wanted_tokens = 200, .missing_tokens = missing, .synced = synced};
}

GridCell predraft_cell(Strategy strategy, double tpot_ms, std::uint64_t missing) {
  GridCell cell_of = cell(strategy, tpot_ms);
  cell_of.answers[0].predraft = predraft(missing);
  return cell_of;
}

// T_p 25.5, T_q 442 for up to five rows, T_c 42.
LawPace rtx() {
  return {with_times(paper_paces()[1], PassTimes::kPrinted)};
}

TEST(LawTest, ACellsOwnFiguresGiveItsResidual) {
  const std::optional<LawRow> row = law_of(predraft_cell(Strategy::kSd, 320, 200), rtx());
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->law_ms, (84 + 102 + 442) / 2.0);
  EXPECT_NEAR(row->residual.value, 6.0 / 320, 1e-12);
  EXPECT_FALSE(row->residual.interval.has_value()) << "one prompt";
}

// A server that is slower than its pace does not change the law.
TEST(LawTest, ThePassIsTheAskedOneNotTheMeasured) {
  const std::optional<LawRow> row = law_of(cell(Strategy::kAr, 230), rtx());
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->terms.pass_ms, 442) << "they took 460";
}

TEST(LawTest, TheAskedPassGrowsWithItsRowsAndItsExits) {
  const PaceCurve curve = *PaceCurve::parse("1:100,5:140,9:200");
  AnswerFigures figures;
  EXPECT_FALSE(asked_pass_ms(figures, curve, 1.5).has_value());
  figures.passes_by_rows = {2, 0, 1, 0, 1};
  EXPECT_DOUBLE_EQ(*asked_pass_ms(figures, curve, 1.5), (100 + 100 + 120 + 140) / 4.0);
  figures.exit_passes_by_rows = {1, 0, 0, 0, 1};
  EXPECT_DOUBLE_EQ(*asked_pass_ms(figures, curve, 1.5), (150 + 100 + 120 + 210) / 4.0);
  EXPECT_FALSE(asked_pass_ms(figures, {}, 1.5).has_value()) << "unpaced";
}

TEST(LawTest, AResidualsIntervalIsOverPrompts) {
  GridCell two = predraft_cell(Strategy::kSd, 320, 200);
  two.answers.push_back(predraft_cell(Strategy::kSd, 400, 200).answers[0]);
  const std::optional<LawRow> row = law_of(two, rtx());
  ASSERT_TRUE(row.has_value() && row->residual.interval.has_value());
  EXPECT_NEAR(row->residual.interval->low, 6.0 / 320, 1e-12);
  EXPECT_NEAR(row->residual.interval->high, 86.0 / 400, 1e-12);
}

TEST(LawTest, WhatAVerdictLeavesToDraftIsItsShareOfTheDrafting) {
  GridCell fsd = cell(Strategy::kFsd, 280);
  EXPECT_FALSE(law_of(fsd, rtx()).has_value()) << "nothing is known of its hits";
  fsd.answers[0].predraft = predraft(60);
  const std::optional<LawRow> row = law_of(fsd, rtx());
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->terms.left_rate, 0.3);
  EXPECT_DOUBLE_EQ(row->terms.gamma, 4);
  fsd.answers[0].predraft->late_hits = 8;  // half of the step in work is done
  EXPECT_DOUBLE_EQ(law_of(fsd, rtx())->terms.left_rate, (60.0 - 4) / 200);
}

TEST(LawTest, AMirrorsPassesAreSyncedAloneOrWaitedFor) {
  GridCell mirror = cell(Strategy::kMirror, 250);
  mirror.answers[0].rounds = 40;
  mirror.answers[0].predraft = predraft(60, 30);
  const std::optional<LawRow> row = law_of(mirror, rtx());
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->terms.synced_rate, 0.6);
  EXPECT_DOUBLE_EQ(row->terms.alone_rate, 0.2);
  EXPECT_DOUBLE_EQ(row->terms.late_ms, 0);
  EXPECT_NEAR(row->law_ms, (0.2 * 84 + 0.2 * 102 + 442) / 2, 1e-9);
  mirror.answers[0].predraft->synced_late = from_ms(30 * 8);
  EXPECT_NEAR(law_of(mirror, rtx())->terms.late_ms, 8, 1e-9);
}

TEST(LawTest, WhatPreDraftingSavedStandsBesideWhatItShould) {
  const GridCell sd = predraft_cell(Strategy::kSd, 300, 200),
                 fsd = predraft_cell(Strategy::kFsd, 280, 100);
  const std::optional<FsdSaving> saving = fsd_saving(sd, fsd, rtx());
  ASSERT_TRUE(saving.has_value());
  EXPECT_DOUBLE_EQ(saving->measured_ms, 20);
  EXPECT_DOUBLE_EQ(saving->law_ms, 0.5 * 4 * 25.5 / 2);
  EXPECT_DOUBLE_EQ(saving->share.value, 20 / 25.5);
}

// The first round is drafted while the stream opens, by plain speculation too.
TEST(LawTest, WhatBothStrategiesDraftedAheadIsNoSaving) {
  const GridCell sd = predraft_cell(Strategy::kSd, 300, 180),
                 fsd = predraft_cell(Strategy::kFsd, 280, 100);
  EXPECT_NEAR(law_of(sd, rtx())->law_ms, (84 + 0.9 * 102 + 442) / 2, 1e-9);
  EXPECT_NEAR(fsd_saving(sd, fsd, rtx())->law_ms, (0.9 - 0.5) * 4 * 25.5 / 2, 1e-9);
}

TEST(LawTest, WhereNothingWasDraftedAheadThereIsNoSavingToMeet) {
  EXPECT_FALSE(fsd_saving(predraft_cell(Strategy::kSd, 300, 200),
                          predraft_cell(Strategy::kFsd, 290, 200), rtx())
                   .has_value());
}

TEST(LawTest, AWrongTextHasNoLaw) {
  GridCell wrong = cell(Strategy::kAr, 400);
  wrong.mismatches = 1;
  EXPECT_FALSE(law_of(wrong, rtx()).has_value());
}

}  // namespace
}  // namespace outrider

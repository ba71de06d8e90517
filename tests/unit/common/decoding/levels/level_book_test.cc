// The times of a level: measured, and learnt from answers. SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/engine/model/emulated/pace.h"
#include "common/engine/model/emulated/paced_model.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using testing::HasSubstr;

Result<LevelProfile> measured_alone(Model& model, Clock& clock, const DiskWaits& waits = {}) {
  const NamedLevel level[] = {{"60", &model}};
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<LevelProfile> measured,
                            measure_levels(level, clock, waits));
  return measured.front();
}

TEST(LevelBook, MeasuresAPromptByItsRowsAndATokenByItsPass) {
  ManualClock clock;
  PacedModel model(std::make_unique<ToyModel>(), *PaceCurve::parse("1:5,64:68"), clock);
  const auto measured = measured_alone(model, clock);
  ASSERT_TRUE(measured.ok()) << measured.status().to_string();
  EXPECT_EQ(measured->name, "60");
  EXPECT_NEAR(measured->prefill_ms, 68.0 / 64, 0.01);
  EXPECT_NEAR(measured->tpot_ms, 5, 0.01);
  EXPECT_NEAR(measured->pass_ms, 5, 0.01);
}

// Of 68 ms of a pass that reads a prompt, the disk is waited for in 50, and in all of a token's.
TEST(LevelBook, WhatADiskTakesIsTakenOnceForAPrompt) {
  ManualClock clock;
  PacedModel model(std::make_unique<ToyModel>(), *PaceCurve::parse("1:50,64:68"), clock);
  int passes = 0;
  const auto waits = [&passes] { return from_ms(50.0 * (++passes / 2)); };
  const auto measured = measured_alone(model, clock, waits);
  ASSERT_TRUE(measured.ok());
  EXPECT_NEAR(measured->prefill_ms, 18.0 / 64, 0.01);
  EXPECT_NEAR(measured->pass_ms, 50, 0.01);
}

TEST(LevelBook, AContextThatHoldsNoMeasurementIsRefused) {
  ManualClock clock;
  for (const Position context : {3, 8, 15}) {
    ToyModel model(7, context);
    EXPECT_THAT(measured_alone(model, clock).status().message(), HasSubstr("--max-model-len"))
        << context;
  }
  ToyModel least(7, 16);
  EXPECT_TRUE(measured_alone(least, clock).ok());
}

// Another program takes half of the machine while the first passes run.
TEST(LevelBook, ABusyMachineFindsNoSmallerLevelSlower) {
  class Busy final : public Clock {
   public:
    TimePoint now() const override { return clock_.now(); }
    void sleep_until(TimePoint until) override {
      const Duration takes = until - clock_.now();
      clock_.advance(++passes_ % 7 < 3 ? 2 * takes : takes);
    }

   private:
    ManualClock clock_;
    int passes_ = 0;
  } clock;
  PacedModel full(std::make_unique<ToyModel>(), *PaceCurve::parse("1:5,64:68"), clock);
  PacedModel most(std::make_unique<ToyModel>(), *PaceCurve::parse("1:4.9,64:66"), clock);
  PacedModel half(std::make_unique<ToyModel>(), *PaceCurve::parse("1:2.5,64:34"), clock);
  const NamedLevel levels[] = {{"100", &full}, {"98", &most}, {"50", &half}};
  const auto measured = measure_levels(levels, clock);
  ASSERT_TRUE(measured.ok()) << measured.status().to_string();
  for (std::size_t i = 1; i < measured->size(); ++i) {
    EXPECT_LE((*measured)[i].tpot_ms, (*measured)[i - 1].tpot_ms);
    EXPECT_LE((*measured)[i].prefill_ms, (*measured)[i - 1].prefill_ms);
  }
  EXPECT_NEAR((*measured)[0].tpot_ms / (*measured)[2].tpot_ms, 2, 0.1) << "by medians";
}

LevelBook two_levels() {
  ElasticTable table;
  table.levels = {{.name = "100"}, {.name = "60", .divergence = 0.25, .agreement = 0.9}};
  return {table, table.levels, {{"100", 1, 20, 20}, {"60", 0.5, 10, 10}}};
}

TEST(LevelBook, ADeadlineChoosesNoLevelThatFailsTheTask) {
  ElasticTable table;
  table.levels = {{.name = "100", .score = 180},
                  {.name = "70", .divergence = 3, .score = 171},
                  {.name = "60", .divergence = 0.01, .score = 170}};
  table.task = "robot actions";
  const std::vector<LevelProfile> times = {{"100", 1, 20, 20}, {"70", 1, 15, 15}, {"60", 1, 9, 9}};
  const LevelBook scored(table, table.levels, times);
  const LevelWish late{.slo = {.time_ms = 50}};
  const AnswerSize size{.prompt_tokens = 10, .max_tokens = 21};
  EXPECT_EQ(scored.choose(late, size)->level, 1u) << "171 of 180 are 0.95";
  EXPECT_EQ(scored.choose({.level = "60"}, size)->level, 2u) << "what is named answers";
  EXPECT_EQ(scored.choose({.slo = {.time_ms = 50, .min_quality = 0.9}}, size)->level, 2u);
  EXPECT_EQ(scored.choose({.slo = {.time_ms = 50, .min_quality = 1}}, size)->level, 0u);
  EXPECT_THAT(scored.about(), HasSubstr("60 only by name or slo.min_quality"));

  table.task.clear();
  const LevelBook unscored(table, table.levels, times);
  EXPECT_EQ(unscored.choose(late, size)->level, 2u) << "0.01 nats";
  EXPECT_THAT(unscored.about(), HasSubstr("70 only by name"));
}

TEST(LevelBook, AnAnswerSaysWhatTheNextWillTake) {
  LevelBook book = two_levels();
  const Slo slo{.time_ms = 500};
  EXPECT_FALSE(book.choose({.slo = slo}, {.prompt_tokens = 10}).ok()) << "no length is known";
  const LevelChoice choice = *book.choose({.slo = slo}, {.prompt_tokens = 10, .max_tokens = 21});
  EXPECT_EQ(choice.level, 0u);
  LevelRecord record;
  record.ttft_ms = 25;
  record.time_ms = 25 + 20 * 60;
  book.note(choice, {}, {.read = 10, .said = 21}, record);
  EXPECT_EQ(record.name, "100");
  EXPECT_EQ(record.course, "100");
  EXPECT_EQ(record.predicted_tpot_ms, 20);
  EXPECT_TRUE(record.predicted_keeps_slo);
  EXPECT_EQ(book.profile()[0].tpot_ms, 40) << "half way to what it took";
  const LevelChoice next = *book.choose({.slo = slo}, {.prompt_tokens = 10});
  EXPECT_EQ(next.level, 1u) << "and answers are about that long";
  EXPECT_TRUE(next.length_assumed);
}

TEST(LevelBook, ALongPromptSaysWhatATokenOfItTakes) {
  LevelBook book = two_levels();
  LevelRecord record;
  record.ttft_ms = 40;
  book.note(*book.choose({}, {.prompt_tokens = 80}), {}, {.read = 80, .said = 1}, record);
  EXPECT_EQ(book.profile()[0].prefill_ms, 0.75) << "half way to what it took";
  book.note(*book.choose({}, {.prompt_tokens = 80}), {}, {.read = 20, .said = 1}, record);
  EXPECT_EQ(book.profile()[0].prefill_ms, 0.75) << "most of it was cached, and a pass has its own";
}

TEST(LevelBook, AnAnswerOfSeveralLevelsTellsNothingOfAny) {
  LevelBook book = two_levels();
  LevelRecord record;
  record.ttft_ms = 1;
  record.time_ms = 1000;
  const std::vector<LevelSwitch> switches{
      {.from_token = 7, .level = 1}, {.from_token = 9, .level = 0}, {.from_token = 12, .level = 1}};
  book.note(*book.choose({}, {}), switches, {.read = 80, .said = 20}, record);
  EXPECT_EQ(record.course, "100,7:60,9:100,12:60");
  EXPECT_EQ(record.divergence, 0.25);
  EXPECT_EQ(book.profile()[0].tpot_ms, 20);
  EXPECT_EQ(book.profile()[0].prefill_ms, 1);
}

}  // namespace
}  // namespace outrider

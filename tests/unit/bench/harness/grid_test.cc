// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GridPlan plan_of(std::size_t settings, std::size_t prompts, int repetitions = 1) {
  GridPlan plan;
  plan.prompts.assign(prompts, "prompt");
  plan.repetitions = repetitions;
  plan.variants = {variant_of(Strategy::kAr), variant_of(Strategy::kSd)};
  for (std::size_t i = 0; i < settings; ++i) {
    plan.settings.push_back({.name = "setting " + std::to_string(i)});
  }
  return plan;
}

// Answers [1, 2] at once, except where a test sets something else.
class FakeExecutor final : public AnswerExecutor {
 public:
  RunClock clock() const override { return RunClock::kVirtual; }
  PromptOrder order() const override { return PromptOrder::kOutside; }
  std::string link_kind(std::size_t) const override { return "fake"; }
  Status warm_up() override {
    ++warm_ups;
    return {};
  }
  Result<std::vector<TokenId>> reference(std::size_t, const GridSetting&) override {
    ++references;
    return std::vector<TokenId>{1, 2};
  }
  Status begin(std::size_t) override { return {}; }
  Result<EdgeAnswer> answer(const AnswerJob& job) override {
    ran.push_back(job);
    if (failing.contains(job)) return unavailable("the server died");
    if (refused.contains(job)) return invalid_argument("unknown flag");
    EdgeAnswer answer;
    answer.record.ids =
        wrong.contains(job) ? std::vector<TokenId>{1, 3} : std::vector<TokenId>{1, 2};
    answer.figures.decode_ms = job.variant == 0 ? 20 : 10;
    answer.figures.tokens = 1 + static_cast<double>(job.prompt);
    answer.record.strategy = job.variant == 0 ? "ar" : "sd";
    answer.record.stats.completion_tokens = 10 * (1 + job.prompt);
    if (job.prompt == 1) {
      answer.record.stats.plan_changes.emplace_back().token = 5;
      answer.record.stats.plan_changes.back().speculates = false;
    }
    answer.link = LinkCounts{.up = {.sent = 3, .lost = job.prompt}};
    return answer;
  }
  PaceCounts end() override { return {}; }

  std::set<AnswerJob> failing, wrong, refused;
  std::vector<AnswerJob> ran;
  int warm_ups = 0;
  int references = 0;
};

class KnowsSome final : public GridListener {
 public:
  std::optional<FinishedAnswer> known(const AnswerJob& job) override {
    const auto found = answers.find(job);
    return found == answers.end() ? std::nullopt : std::optional(found->second);
  }
  Status on_finished(const FinishedAnswer& answer) override {
    finished.push_back(answer.job);
    return full_after > 0 && finished.size() >= full_after ? resource_exhausted("disk") : Status();
  }

  std::map<AnswerJob, FinishedAnswer> answers;
  std::vector<AnswerJob> finished;
  std::size_t full_after = 0;
};

TEST(GridTest, AFailedAnswerIsCountedAndItsPromptLeavesTheRatios) {
  const GridPlan plan = plan_of(1, 3);
  FakeExecutor executor;
  executor.failing = {{0, 1, 1, 0}};
  KnowsSome listener;
  const GridResult result = *run_grid(plan, executor, listener);
  EXPECT_EQ(result.failures, 1u);
  EXPECT_EQ(result.compared, 5u);
  EXPECT_EQ(executor.ran.size(), 6u) << "the run continues";
  ASSERT_EQ(result.cells.size(), 2u);
  EXPECT_EQ(result.cells[1].failures, 1u);
  for (const GridCell& cell : result.cells) {
    ASSERT_EQ(cell.answers.size(), 2u);
    EXPECT_EQ(cell.answers[0].tokens, 1) << "the first prompt's";
    EXPECT_EQ(cell.answers[1].tokens, 3) << "the third's";
  }
  const auto failed = std::ranges::find_if(result.finished, &FinishedAnswer::failed);
  EXPECT_THAT(failed->error, HasSubstr("the server died"));
}

TEST(GridTest, CellsSayHowMuchWasSpeculatedAndWhatTheLinkDid) {
  const GridPlan plan = plan_of(1, 2);
  FakeExecutor executor;
  KnowsSome listener;
  const GridResult result = *run_grid(plan, executor, listener);
  EXPECT_EQ(result.cells[0].speculation_on(), 0);
  EXPECT_DOUBLE_EQ(result.cells[1].speculation_on(), 15.0 / 30);
  ASSERT_TRUE(result.cells[1].link.has_value());
  EXPECT_EQ(result.cells[1].link->up.sent, 6u);
  EXPECT_EQ(result.cells[1].link->up.lost, 1u);
}

TEST(GridTest, AWrongTextMakesItsCellInvalid) {
  FakeExecutor executor;
  executor.wrong = {{0, 1, 0, 0}};
  KnowsSome listener;
  const GridPlan plan = plan_of(1, 2);
  const GridResult result = *run_grid(plan, executor, listener);
  EXPECT_EQ(result.mismatches, 1u);
  EXPECT_EQ(result.cells[0].mismatches, 0u);
  EXPECT_EQ(result.cells[1].mismatches, 1u);
}

TEST(GridTest, WhatAnEarlierRunHadIsNotRunAgain) {
  const GridPlan plan = plan_of(2, 2);
  FakeExecutor first;
  KnowsSome all;
  all.full_after = 3;
  EXPECT_EQ(run_grid(plan, first, all).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(first.ran.size(), 3u);
  KnowsSome rest;
  for (const AnswerJob& job : all.finished) rest.answers[job] = {.job = job};
  FakeExecutor second;
  const GridResult result = *run_grid(plan, second, rest);
  EXPECT_EQ(second.ran.size(), 5u);
  EXPECT_EQ(result.finished.size(), 8u);
  EXPECT_EQ(second.warm_ups, 1);
  KnowsSome everything;
  for (const FinishedAnswer& answer : result.finished) everything.answers[answer.job] = answer;
  FakeExecutor third;
  EXPECT_TRUE(run_grid(plan, third, everything).ok());
  EXPECT_EQ(third.warm_ups + third.references, 0) << "nothing is left to do";
}

TEST(GridTest, ARefusedVariantEndsTheRun) {
  FakeExecutor executor;
  executor.refused = {{0, 1, 0, 0}};
  KnowsSome listener;
  const GridPlan plan = plan_of(1, 2);
  EXPECT_EQ(run_grid(plan, executor, listener).status().code(), StatusCode::kInvalidArgument);
}

TEST(GridPlanTest, EachPromptBeginsWithAnotherVariant) {
  const GridPlan plan = plan_of(1, 2, 2);
  std::vector<std::size_t> variants;
  for (const AnswerJob& job : jobs_of(plan, PromptOrder::kInside)) variants.push_back(job.variant);
  EXPECT_THAT(variants, ElementsAre(0, 1, 1, 0, 1, 0, 0, 1));
  const std::vector<AnswerJob> inside = jobs_of(plan_of(2, 3, 2), PromptOrder::kInside);
  const std::vector<AnswerJob> outside = jobs_of(plan_of(2, 3, 2), PromptOrder::kOutside);
  EXPECT_EQ(std::set<AnswerJob>(inside.begin(), inside.end()),
            std::set<AnswerJob>(outside.begin(), outside.end()));
}

TEST(GridPlanTest, VariantsMeetTheSameStretchOfTheLink) {
  const GridPlan plan = plan_of(2, 3, 2);
  EXPECT_EQ(link_offset(plan, {0, 0, 1, 1}), link_offset(plan, {1, 1, 1, 1}));
  EXPECT_EQ(link_seed(plan, {0, 0, 1, 1}), link_seed(plan, {1, 1, 1, 1}));
  EXPECT_NE(link_offset(plan, {0, 0, 1, 0}), link_offset(plan, {0, 0, 1, 1}));
  EXPECT_NE(link_seed(plan, {0, 0, 1, 0}), link_seed(plan, {0, 0, 2, 0}));
}

TEST(GridPlanTest, OneAnswerOfEachVariantIsTracedAtTheMiddleRoundTrip) {
  GridPlan plan;
  plan.prompts = {"a", "b"};
  for (const double ms : {300.0, 10.0, 50.0}) {
    plan.settings.push_back({.name = "s", .link = delay_profile(from_ms(ms))});
  }
  EXPECT_FALSE(is_traced(plan, {2, 0, 0, 0})) << "not requested";
  plan.traces = true;
  EXPECT_TRUE(is_traced(plan, {2, 0, 0, 0}));
  EXPECT_TRUE(is_traced(plan, {2, 1, 0, 0}));
  EXPECT_FALSE(is_traced(plan, {0, 0, 0, 0}));
  EXPECT_FALSE(is_traced(plan, {2, 0, 1, 0}));
  EXPECT_FALSE(is_traced(plan, {2, 0, 0, 1}));
}

}  // namespace
}  // namespace outrider

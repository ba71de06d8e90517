// SPDX-License-Identifier: Apache-2.0
#include "bench/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/serving/cli/program.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

const Bar kMet{"speed", {2, Interval{1.8, 2.2}}, 1.5};
const Bar kMissed{"speed", {2, Interval{1.4, 2.6}}, 1.5};
const Bar kWithoutInterval{"speed", {2, std::nullopt}, 1.5};

CheckOutcome held(const std::vector<Bar>& bars) {
  CheckOutcome outcome{.passed = true};
  outcome.hold(bars);
  return outcome;
}

TEST(CheckOutcomeTest, ABarThatIsMetPasses) {
  EXPECT_EQ(held({kMet}).exit_code(), kExitOk);
  EXPECT_EQ(held({kMet}).figures["bars"][0]["name"], "speed");
}

TEST(CheckOutcomeTest, WithoutABarNothingIsShown) {
  const CheckOutcome outcome = held({});
  EXPECT_EQ(outcome.exit_code(), 4);
  EXPECT_THAT(outcome.inconclusive, HasSubstr("no bar"));
}

TEST(CheckOutcomeTest, OneSampleIsInconclusive) {
  const CheckOutcome outcome = held({kMet, kWithoutInterval});
  EXPECT_EQ(outcome.exit_code(), kExitInconclusive);
  EXPECT_THAT(outcome.inconclusive, HasSubstr("no confidence interval"));
}

TEST(CheckOutcomeTest, AFailureCountsBeforeALackOfEvidence) {
  EXPECT_EQ(held({kMissed}).exit_code(), kExitRuntime);
  EXPECT_EQ(held({kMissed, kWithoutInterval}).exit_code(), kExitRuntime);
  CheckOutcome wrong_text;
  wrong_text.hold({});
  EXPECT_EQ(wrong_text.exit_code(), kExitRuntime);
}

TEST(CheckOutcomeTest, PeopleGetSingleFiguresAndWhereTheOthersAre) {
  const Json line = {{"check", "x"}, {"ratio", 1.5}, {"bars", Json::array({1})}};
  const std::string text = figures_for_people(line);
  EXPECT_THAT(text, HasSubstr("ratio: 1.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("bars")));
  EXPECT_THAT(text, HasSubstr("> figures.json"));
}

TEST(CheckOutcomeTest, TheFirstReasonIsKept) {
  CheckOutcome outcome{.passed = true};
  outcome.mark_inconclusive("one");
  outcome.mark_inconclusive("two");
  EXPECT_EQ(outcome.inconclusive, "one");
}

TEST(CheckOutcomeTest, ThatAnEmulatedPaceWasNotKeptIsReportedAndFails) {
  CheckOutcome outcome = held({kMet});
  outcome.hold_pace("target", {.passes = 200, .overruns = 2});
  EXPECT_EQ(outcome.exit_code(), kExitOk);
  outcome.hold_pace("draft", {.passes = 200, .overruns = 3});
  EXPECT_EQ(outcome.exit_code(), kExitRuntime);
  EXPECT_EQ(outcome.figures["pace_overruns"]["draft"]["overruns"], 3);
}

int run(CheckList& checks, CLI::App& app, const std::string& line, std::string& out) {
  app.parse(line);
  testing::internal::CaptureStdout();
  const Result<int> code = checks.run_chosen();
  out = testing::internal::GetCapturedStdout();
  return code.ok() ? *code : -1;
}

TEST(CheckListTest, TheLineSaysWhyNothingIsShown) {
  CLI::App app;
  CheckList checks(app);
  checks.add("empty", "", [] { return held({}); });
  checks.add("full", "", [] { return held({kMet}); });
  std::string out;
  EXPECT_EQ(run(checks, app, "empty", out), 4);
  const Json empty = *parse_json(out, "the line");
  EXPECT_EQ(empty["passed"], false);
  EXPECT_THAT(empty["inconclusive"].get<std::string>(), HasSubstr("no bar"));
  EXPECT_EQ(run(checks, app, "full", out), 0);
  const Json full = *parse_json(out, "the line");
  EXPECT_EQ(full["passed"], true);
  EXPECT_FALSE(full.contains("inconclusive"));
}

}  // namespace
}  // namespace outrider

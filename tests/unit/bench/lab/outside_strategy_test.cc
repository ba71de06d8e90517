// Strategies that another program decides. SPDX-License-Identifier: Apache-2.0
#include "bench/lab/outside_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "edge_client/speculation/speculation_options.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OutsidePlan, KeepsWhatALineLeavesOut) {
  const OutsidePlan before{.length = 7, .ahead = true, .fan_out = 3};
  const auto plan = read_outside_plan(R"({"send": true, "least_chance": 0.25})", before);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->length, 7u);
  EXPECT_EQ(plan->fan_out, 3);
  EXPECT_TRUE(plan->ahead);
  EXPECT_TRUE(plan->send);
  EXPECT_EQ(plan->least_chance, 0.25);
}

TEST(OutsidePlan, RefusesFieldsByNameValueAndRemedy) {
  const auto why = [](std::string_view line) {
    const auto plan = read_outside_plan(line, {});
    return plan.ok() ? "it was taken" : plan.status().message();
  };
  EXPECT_THAT(why(R"({"length": 65})"), HasSubstr("'length' is 65. Remedy: a whole number from 0 "
                                                  "to 64"));
  EXPECT_THAT(why(R"({"length": -1})"), HasSubstr("'length' is -1"));
  EXPECT_THAT(why(R"({"length": 2.5})"), HasSubstr("'length' is 2.5"));
  EXPECT_THAT(why(R"({"length": "4"})"), HasSubstr("'length' is \"4\""));
  EXPECT_THAT(why(R"({"fan_out": 0})"), HasSubstr("'fan_out' is 0"));
  EXPECT_THAT(why(R"({"least_chance": 1.5})"), HasSubstr("'least_chance' is 1.5"));
  EXPECT_THAT(why(R"({"ahead": 1})"), HasSubstr("'ahead' is 1. Remedy: true or false"));
  EXPECT_THAT(why(R"({"gamma": 4})"), HasSubstr("\"gamma\" is no field of a plan"));
  EXPECT_THAT(why(R"({"send": true})"), HasSubstr("\"ahead\": true"));
  EXPECT_THAT(why(R"({"length": 4, "length": 5})"), HasSubstr("length"));
  EXPECT_THAT(why("[4]"), HasSubstr("an object of JSON"));
  EXPECT_THAT(why("four"), HasSubstr("JSON"));
}

// Answers as the guest of a run is made.
std::unique_ptr<SpeculationStrategy> begin_answer(const OutsideProgram& program) {
  return program.guest().make({.strategy = StrategyChoice(program.guest()), .gamma = 5});
}

TEST(OutsideProgram, DecidesFromTheBeginningAndAfterEachVerdict) {
  OutsideProgram program(
      "mine", R"(sed -u 's/.*"answer".*/{"length": 3}/; s/.*"verdict".*/{"length": 0}/')");
  const auto strategy = begin_answer(program);
  EXPECT_EQ(strategy->round().length, 3u);
  EXPECT_TRUE(strategy->speculates());
  EXPECT_FALSE(strategy->drafts_ahead({}));
  const auto change = strategy->on_verdict({.tokens = 1, .text = {7}}, {});
  ASSERT_TRUE(change.has_value());
  EXPECT_FALSE(change->speculates);
  EXPECT_EQ(strategy->pass_policy().pass_policy, PassPolicy::kEager);
  EXPECT_TRUE(program.status().ok()) << program.status().message();
}

TEST(OutsideProgram, MayDraftAndSendWhileAVerdictIsAwaited) {
  OutsideProgram program("mine", R"(sed -u 's/.*/{"ahead": true, "send": true, "fan_out": 2}/')");
  const auto strategy = begin_answer(program);
  EXPECT_EQ(strategy->round().length, 5u) << "the run's own, as the program says nothing of it";
  EXPECT_TRUE(strategy->drafts_ahead({}));
  const auto selected = strategy->select_ahead({.room = 9, .draft_works = true}, {});
  ASSERT_TRUE(selected.has_value());
  EXPECT_EQ(selected->limits.whole, 5u);
  EXPECT_FALSE(selected->limits.due);
}

TEST(OutsideProgram, OneThatCannotDecideIsNamedAndTheAnswerGoesOn) {
  const auto why = [](const std::string& command) {
    OutsideProgram program("mine", command, std::chrono::milliseconds(300));
    EXPECT_EQ(begin_answer(program)->round().length, 5u);
    return program.status().message();
  };
  EXPECT_THAT(why("true"), AllOf(HasSubstr("--strategy mine=true"), HasSubstr("it has ended")));
  EXPECT_THAT(why("sleep 1000"), HasSubstr("it gave no plan"));
  EXPECT_THAT(why("echo hello; cat"), HasSubstr("JSON"));
  EXPECT_THAT(why("yes '  ' | tr -d '\\n'"), HasSubstr("more than 65536 bytes"));
  EXPECT_THAT(why("no-such-program"), HasSubstr("it has ended"));
}

TEST(OutsideProgram, WhatAnEndedOneHadWrittenStillCounts) {
  OutsideProgram program("mine", R"(echo '{"length": 3}'; echo '{"length": 99}')");
  EXPECT_EQ(program.ask({{"event", "answer"}}, {}).length, 3u);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it ends before the next question
  program.ask({{"event", "verdict"}}, {});
  EXPECT_THAT(program.status().message(), HasSubstr("'length' is 99"));
}

}  // namespace
}  // namespace outrider

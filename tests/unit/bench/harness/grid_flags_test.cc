// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/grid_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "bench/harness/prompt_file.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GridFlagsTest : public testing::Test {
 protected:
  GridFlagsTest() {
    flags_.prompts = testing::TempDir() + "grid_flags.jsonl";
    std::ofstream(flags_.prompts) << R"({"prompt":"a"})";
    flags_.num_prompts = 1;
    flags_.pass_times = {PassTimes::kPrinted, PassTimes::kMeasured};
  }

  std::vector<std::string> settings(const std::vector<GridVariant>& variants) {
    const auto experiment = make_experiment(flags_, variants);
    EXPECT_TRUE(experiment.ok()) << experiment.status().to_string();
    std::vector<std::string> names;
    if (!experiment.ok()) return names;
    for (const GridSetting& setting : experiment->plan.settings) names.push_back(setting.name);
    return names;
  }

  GridFlags flags_;
};

TEST_F(GridFlagsTest, MeasuredPassTimesStandBeforePrintedOnes) {
  flags_.paces = {"rtx-68m-7b", "table9-5ms", "unpaced"};
  EXPECT_THAT(settings({variant_of(Strategy::kAr)}),
              ElementsAre("rtx-68m-7b", "rtx-68m-7b printed", "table9-5ms", "unpaced"));
  flags_.delays_ms = {5};
  flags_.paces = {"rtx-68m-7b"};
  EXPECT_THAT(settings({variant_of(Strategy::kAr)}),
              ElementsAre("rtx-68m-7b@5ms", "rtx-68m-7b@5ms printed"));
}

TEST_F(GridFlagsTest, BothReadingsOfALinkStandBesideEachOther) {
  flags_.pass_times = {PassTimes::kMeasured};
  flags_.pace_links = {PaceLink::kWhole, PaceLink::kDistance};
  flags_.paces = {"rtx-68m-7b", "table9-5ms"};
  EXPECT_THAT(settings({variant_of(Strategy::kAr)}),
              ElementsAre("rtx-68m-7b", "rtx-68m-7b distance", "table9-5ms"));
}

TEST_F(GridFlagsTest, OnlyExitsNeedTheirCost) {
  flags_.paces = {"rtx-68m-7b"};
  EXPECT_TRUE(make_experiment(flags_, {variant_of(Strategy::kAr), variant_of(Strategy::kSd)}).ok());
  const auto without =
      make_experiment(flags_, {variant_of(Strategy::kAr), variant_of(Strategy::kMirror)});
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.status().message(), HasSubstr("--exit-cost"));
  flags_.paces = {"unpaced"};  // no pass is made longer
  EXPECT_TRUE(make_experiment(flags_, {variant_of(Strategy::kMirror)}).ok());
  flags_.paces = {"rtx-68m-7b"};
  flags_.pass_times = {PassTimes::kPrinted};
  EXPECT_TRUE(make_experiment(flags_, {variant_of(Strategy::kMirror)}).ok());
  flags_.exit_cost = 1.1;
  EXPECT_FALSE(make_experiment(flags_, {variant_of(Strategy::kMirror)}).ok())
      << "printed times hold it";
}

TEST_F(GridFlagsTest, WithoutAFlagTheCostOfExitsIsAskedForOnceWhereItIsNeeded) {
  int asked = 0;
  flags_.measure_exit_cost = [&]() -> Result<double> {
    ++asked;
    return 1.2;
  };
  flags_.paces = {"rtx-68m-7b", "table9-5ms"};
  EXPECT_FALSE(make_experiment(flags_, {variant_of(Strategy::kSd)})->exit_cost.has_value());
  EXPECT_EQ(asked, 0);
  const auto experiment = make_experiment(flags_, {variant_of(Strategy::kMirror)});
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(experiment->plan.settings[0].exit_cost, 1.2);
  EXPECT_EQ(experiment_json(flags_, *experiment)["exit_cost"], 1.2);
  EXPECT_EQ(experiment_json(flags_, *experiment)["exit_cost_measured"], true);
  flags_.exit_cost = 1.1;
  EXPECT_EQ(make_experiment(flags_, {variant_of(Strategy::kMirror)})->exit_cost, 1.1);
  EXPECT_EQ(asked, 1);
  flags_.exit_cost.reset();
  flags_.measure_exit_cost = []() -> Result<double> { return unavailable("no model"); };
  EXPECT_FALSE(make_experiment(flags_, {variant_of(Strategy::kMirror)}).ok());
}

// A server runs at the pace of a pass without exits for every strategy.
TEST_F(GridFlagsTest, ExitsCostWhatTheyCostInPassesThatHaveThem) {
  flags_.paces = {"rtx-68m-7b", "table9-5ms"};
  flags_.exit_cost = 1.25;
  const auto experiment =
      make_experiment(flags_, {variant_of(Strategy::kAr), variant_of(Strategy::kMirror)});
  ASSERT_TRUE(experiment.ok());
  const std::vector<GridSetting>& settings = experiment->plan.settings;
  ASSERT_EQ(settings.size(), 3u);
  EXPECT_EQ(settings[0].exit_cost, 1.25);
  EXPECT_NEAR(settings[0].pass.ms(1), experiment->paces[0].ar_ms, 1e-9);
  EXPECT_EQ(settings[1].exit_cost, 1) << "printed";
  EXPECT_EQ(settings[2].exit_cost, 1.25);
}

TEST_F(GridFlagsTest, TheSetsInTheRepositoryHoldThirtyEach) {
  const std::string folder = source_dir() + "/" + kPromptSets;
  for (const char* set : {"gsm8k", "humaneval", "mbpp", "mt-bench", "robot"}) {
    EXPECT_EQ(read_prompt_file(folder + "/" + set + ".jsonl", 0)->size(), 30u) << set;
  }
  EXPECT_EQ(read_prompt_file(folder, 0)->size(), 150u);
}

TEST_F(GridFlagsTest, ARunIsHeldToItsTextsAndItsPaces) {
  GridResult result;
  result.compared = 4;
  result.overruns = {{"jetson", {.passes = 100, .overruns = 1}, {.passes = 100, .overruns = 0}}};
  CheckOutcome outcome{.passed = true};
  hold_run(result, outcome);
  EXPECT_TRUE(outcome.passed);
  EXPECT_EQ(outcome.figures["compared"], 4);
  EXPECT_EQ(outcome.figures["pace_overruns"]["target at jetson"]["overruns"], 1);
  result.overruns[0].draft.overruns = 2;
  hold_run(result, outcome);
  EXPECT_FALSE(outcome.passed);
  result.overruns.clear();
  result.mismatches = 1;
  CheckOutcome wrong{.passed = true};
  hold_run(result, wrong);
  EXPECT_FALSE(wrong.passed);
}

}  // namespace
}  // namespace outrider

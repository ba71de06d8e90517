// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/scenario/run_flags.h"
#include "emulation/path/link_spec.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ScenarioFileTest : public testing::Test {
 protected:
  // The flags of `line`, then those of the file.
  Status apply(const std::string& toml, const std::string& line = "") {
    const std::string path = testing::TempDir() + "scenario.toml";
    std::ofstream(path) << toml;
    app_ = std::make_unique<CLI::App>();
    flags_ = RunFlags();
    flags_.grid.paces.clear();
    add_run_flags(*app_, flags_);
    add_model_flags(*app_, flags_.grid);
    add_pace_flags(*app_, flags_.grid);
    app_->parse(line);
    return apply_scenario(path, *app_);
  }

  std::unique_ptr<CLI::App> app_;
  RunFlags flags_;
};

TEST_F(ScenarioFileTest, KeysAreFlagsAndFlagsComeFirst) {
  const Status status = apply(
      "network = [\"lte\", \"starlink\"]\nstrategy = \"ar,mirror\"\ntemp = [0, 0.7]\n"
      "num-prompts = 3 # few\ndeadline-ms = 2500\nclock = \"virtual\"\nseed = 5\n",
      "--seed 9");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(flags_.networks, ElementsAre("lte", "starlink"));
  EXPECT_THAT(flags_.strategies, ElementsAre("ar", "mirror"));
  EXPECT_EQ(flags_.temperatures, "0,0.7");
  EXPECT_EQ(flags_.grid.num_prompts, 3u);
  EXPECT_EQ(flags_.limits.e2el_ms, 2500);
  EXPECT_EQ(flags_.clock, RunClock::kVirtual);
  EXPECT_EQ(flags_.grid.plan.seed, 9u) << "the command line's";
}

TEST_F(ScenarioFileTest, WhatIsWrongIsToldWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"seed = 1\nnetwrok = \"lte\"", "line 2: unknown key 'netwrok'. Did you mean 'network'?"},
      {"zzzzzz = 1", "keys are the command's flags"},
      {"scenario = \"other.toml\"", "unknown key"},
      {"[grid]\nseed = 1", "unknown key 'grid'"},
      {"strategy = [[1]]", "a list holds"},
      {"network = []", "the list is empty"},
      {"clock = \"wall\"", "line 1"},
      {"seed = ", "line 1"},
      {"seed = 1\nseed = 2", "line 2"},
      {"repetitions = 0", "line 1"}};
  for (const auto& [toml, why] : cases) {
    const Status status = apply(toml);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << toml;
    EXPECT_THAT(status.message(), HasSubstr(why)) << toml;
  }
  app_ = std::make_unique<CLI::App>();
  EXPECT_EQ(apply_scenario("/nowhere.toml", *app_).code(), StatusCode::kNotFound);
}

TEST_F(ScenarioFileTest, TheTracesOnWhichSpeculationIsHeldToBeNoSlowerAreEightThatCanBeRead) {
  std::ifstream file(source_dir() + "/bench/scenario/files/never-slower-traces.toml");
  const Status status = apply({std::istreambuf_iterator<char>(file), {}});
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(flags_.networks.size(), 8u);
  EXPECT_THAT(flags_.strategies, ElementsAre("ar", "mirror"));
  EXPECT_GE(flags_.grid.num_prompts, 200u);
  const std::string shared = source_dir() + "/../shared/data/traces";
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no traces in " << shared;
  for (std::string network : flags_.networks) {
    network.replace(0, std::string("trace:..").size(), "trace:" + source_dir() + "/..");
    const auto links = parse_links(network);
    EXPECT_TRUE(links.ok()) << links.status().to_string();
  }
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/run_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunFlagsTest : public testing::Test {
 protected:
  RunFlagsTest() {
    flags_.grid.prompts = testing::TempDir() + "run_flags.jsonl";
    std::ofstream(flags_.grid.prompts) << "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n";
    flags_.grid.num_prompts = 2;
    flags_.grid.paces.clear();
    flags_.grid.exit_cost = 1.1;
    flags_.grid.pass_times = {PassTimes::kMeasured};
  }

  std::vector<std::string> settings() {
    const auto run = make_run(flags_);
    EXPECT_TRUE(run.ok()) << run.status().to_string();
    std::vector<std::string> names;
    if (!run.ok()) return names;
    for (const GridSetting& setting : run->plan.settings) names.push_back(setting.name);
    return names;
  }
  std::string refusal() {
    const auto run = make_run(flags_);
    EXPECT_EQ(run.status().code(), StatusCode::kInvalidArgument);
    return run.status().message();
  }

  RunFlags flags_;
};

TEST_F(RunFlagsTest, WhatIsUnverifiedHasADeadline) {
  flags_.slo_unverified = true;
  EXPECT_THAT(refusal(), HasSubstr("Remedy: --deadline-ms"));
  flags_.limits.e2el_ms = 800;
  EXPECT_EQ(make_run(flags_)->plan.unverified_by_ms, 800);
}

TEST_F(RunFlagsTest, OnlyTheSimulationIsConnectedBefore) {
  flags_.grid.plan.connected = true;
  EXPECT_THAT(refusal(), HasSubstr("Remedy: --clock virtual"));
  flags_.clock = RunClock::kVirtual;
  EXPECT_TRUE(make_run(flags_)->plan.connected);
}

TEST_F(RunFlagsTest, ListsMakeAGrid) {
  flags_.networks = {"lte", "starlink"};
  flags_.grid.paces = {"table9-5ms", "jetson-68m-7b"};
  flags_.temperatures = "0,0.7";
  flags_.strategies = {"ar", "sd"};
  flags_.gammas = "2-4";
  EXPECT_THAT(
      settings(),
      ElementsAre("lte, table9, T=0", "lte, table9, T=0.7", "starlink, table9, T=0",
                  "starlink, table9, T=0.7", "lte, jetson-68m-7b, T=0", "lte, jetson-68m-7b, T=0.7",
                  "starlink, jetson-68m-7b, T=0", "starlink, jetson-68m-7b, T=0.7"));
  const auto run = make_run(flags_);
  std::vector<std::string> variants;
  for (const GridVariant& variant : run->plan.variants) variants.push_back(variant.name);
  EXPECT_THAT(variants, ElementsAre("ar", "sd γ=2", "sd γ=3", "sd γ=4"));
  EXPECT_EQ(run->plan.variants[3].gamma, 4);
  EXPECT_EQ(run->plan.settings[1].link.name, "lte");
  EXPECT_FLOAT_EQ(run->plan.settings[1].sampling.temperature, 0.7F);
}

TEST_F(RunFlagsTest, ANetworkAloneHasAFastTarget) {
  flags_.networks = {"lte+loss=2%"};
  EXPECT_THAT(settings(), ElementsAre("lte+loss=2%, table9"));
}

TEST_F(RunFlagsTest, OnANetworkTable9IsOneDevice) {
  flags_.networks = {"lte"};
  flags_.grid.paces = {"table9"};
  EXPECT_THAT(settings(), ElementsAre("lte, table9"));
  flags_.grid.paces = {"table9-95ms", "jetson-68m-7b", "table9-5ms"};
  EXPECT_THAT(settings(), ElementsAre("lte, table9", "lte, jetson-68m-7b"));
}

TEST_F(RunFlagsTest, DataSetsMultiplyTheSettingsAndNeedVirtualTime) {
  flags_.synthetic = testing::TempDir() + "run_flags.toml";
  std::ofstream(flags_.synthetic) << "[[data_set]]\nname = \"a\"\ntau = 2\n"
                                     "[[data_set]]\nname = \"b\"\ntau = 3\n";
  flags_.grid.paces = {"table9-5ms"};
  EXPECT_THAT(refusal(), HasSubstr("--clock virtual"));
  flags_.clock = RunClock::kVirtual;
  EXPECT_THAT(settings(), ElementsAre("table9-5ms, a (synthetic)", "table9-5ms, b (synthetic)"));
  flags_.temperatures = "0,0.7";
  EXPECT_THAT(refusal(), HasSubstr("--temp 0"));
}

TEST_F(RunFlagsTest, SyntheticExitsNeedVirtualTimeToo) {
  flags_.grid.plan.exits = kSyntheticExits;
  EXPECT_THAT(refusal(), HasSubstr("--exits synthetic is for the simulation"));
}

TEST_F(RunFlagsTest, WhatNeedsItsOwnServerRefusesAnother) {
  flags_.grid.plan.server = "robot.lan:8001";
  flags_.grid.paces = {"unpaced"};
  flags_.strategies = {"ar", "sd-cloud"};
  EXPECT_THAT(refusal(), HasSubstr("--strategy sd-cloud needs a server of its own"));
}

TEST_F(RunFlagsTest, WhatOnlyTheSimulationCanPaceNeedsVirtualTime) {
  flags_.grid.paces = {"table9-5ms"};
  for (const std::string name : {"block-cloud", "edge-strong", "mirror-server"}) {
    flags_.clock = RunClock::kReal;
    flags_.strategies = {name};
    EXPECT_THAT(refusal(), HasSubstr("--strategy " + name));
    EXPECT_THAT(refusal(), HasSubstr("--clock virtual"));
    flags_.clock = RunClock::kVirtual;
    EXPECT_TRUE(make_run(flags_).ok()) << name;
  }
}

TEST_F(RunFlagsTest, WithoutANetworkPacesHaveTheirOwnDelay) {
  flags_.grid.paces = {"table9-42ms"};
  EXPECT_THAT(settings(), ElementsAre("table9-42ms"));
  EXPECT_EQ(make_run(flags_)->plan.settings[0].link.up.delay, from_ms(42));
  flags_.delays_ms = "1,300";
  EXPECT_THAT(settings(), ElementsAre("table9-42ms@1ms", "table9-42ms@300ms"));
}

TEST_F(RunFlagsTest, ContradictionsAreRefusedWithARemedy) {
  flags_.networks = {"lte"};
  flags_.delays_ms = "5";
  EXPECT_THAT(refusal(), HasSubstr("--network and --delay-ms"));
  flags_.delays_ms.clear();
  flags_.grid.plan.server = "robot.lan:8001";
  EXPECT_THAT(refusal(), HasSubstr("real network"));
  flags_.networks.clear();
  flags_.grid.paces = {"jetson-68m-7b"};
  EXPECT_THAT(refusal(), HasSubstr("--pace unpaced"));
  flags_.grid.plan.server.clear();
  flags_.networks = {"lte", "lte"};
  EXPECT_THAT(refusal(), HasSubstr("stands twice"));
  flags_.networks = {"moon"};
  EXPECT_THAT(refusal(), HasSubstr("moon"));
  flags_.networks.clear();
  flags_.gammas = "0";
  EXPECT_THAT(refusal(), HasSubstr("--spec-draft-n-max"));
  flags_.gammas = "4";
  flags_.strategies = {"sd", "sd"};
  EXPECT_THAT(refusal(), HasSubstr("sd stands twice"));
  flags_.strategies = {"sd"};
  flags_.grid.prompts.clear();
  EXPECT_THAT(refusal(), HasSubstr("--prompts"));
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/speculator.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

class OtherVerifierTest : public testing::Test {
 protected:
  void exchange(bool drafts = true) {
    other_.exchange(strategy_, timings_, exits_, options_, drafts);
  }

  SpeculatorOptions options_{.first = {.strategy = Strategy::kSd}};
  std::unique_ptr<SpeculationStrategy> strategy_ = make_strategy(options_.first);
  Timings timings_;
  OnlineCalibration exits_;
  OtherVerifier other_;
};

TEST_F(OtherVerifierTest, TimesOfOneVerifierAreNotThoseOfTheOther) {
  timings_.plain_pass.add(1, from_ms(400));
  timings_.on_opened(from_ms(80));
  const SpeculationStrategy* server = strategy_.get();
  exchange();
  EXPECT_FALSE(timings_.knows_passes());
  EXPECT_EQ(timings_.round_trip(), Duration{0});
  EXPECT_NE(strategy_.get(), server);
  timings_.plain_pass.add(1, from_ms(900));
  exchange();
  EXPECT_EQ(timings_.pass_of(1, false), from_ms(400));
  EXPECT_EQ(timings_.round_trip(), from_ms(80));
  EXPECT_EQ(strategy_.get(), server);
  exchange();
  EXPECT_EQ(timings_.pass_of(1, false), from_ms(900));
}

TEST_F(OtherVerifierTest, ExitsOfOneAreNotThoseOfTheOther) {
  exits_.hear(4, 0.9, {1});
  exits_.on_verdict(std::vector<TokenId>{2});
  const std::vector<ExitCorrection> learnt = exits_.corrections();
  exchange();
  EXPECT_TRUE(exits_.corrections().empty());
  exchange();
  EXPECT_EQ(exits_.corrections(), learnt);
}

TEST_F(OtherVerifierTest, TheDraftIsTheSameForBoth) {
  timings_.draft_step.add(1, from_ms(7));
  exchange();
  EXPECT_EQ(timings_.draft_step.of(1), from_ms(7));
  timings_.draft_step = {};
  timings_.draft_step.add(1, from_ms(3));
  exchange();
  EXPECT_EQ(timings_.draft_step.of(1), from_ms(3));
}

TEST_F(OtherVerifierTest, ItMayBeSpeculatedWithInAnotherWay) {
  options_.other = SpeculationOptions{.strategy = Strategy::kMirror};
  exchange();
  EXPECT_NE(dynamic_cast<MirrorStrategy*>(strategy_.get()), nullptr);
  exchange();
  EXPECT_NE(dynamic_cast<SdStrategy*>(strategy_.get()), nullptr);
}

TEST_F(OtherVerifierTest, WhoDraftsNoMoreDoesSoWithNeither) {
  exchange();
  exchange(false);
  EXPECT_EQ(strategy_->pass_policy().pass_policy, PassPolicy::kEager);
  EXPECT_EQ(strategy_->pass_policy(), make_strategy({.strategy = Strategy::kAr})->pass_policy());
}

}  // namespace
}  // namespace outrider

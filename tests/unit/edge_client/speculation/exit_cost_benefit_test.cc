// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/exit_cost_benefit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace outrider {
namespace {

using testing::HasSubstr;

// A target of 20 ms a pass whose exits cost some more, in an answer of one token a pass.
class ExitCostBenefitTest : public testing::Test {
 protected:
  ExitCostBenefitTest() { worth_.target_has_exits(true); }

  // One pass as the policy wants it; theirs: what of its verdict only exits foresaw. Returns why.
  std::string pass(double theirs) {
    const bool exits = worth_.wanted();
    (exits ? timings_.pass : timings_.plain_pass).add(4, from_ms(20 + (exits ? cost_ms_ : 0)));
    if (unaided_) worth_.on_round(*unaided_);
    if (exits) worth_.on_verdict(theirs);
    ++tokens_;
    return worth_.decide(timings_, kHitSaves, tokens_);
  }
  void passes(int count, double theirs) {
    for (int i = 0; i < count; ++i) pass(theirs);
  }

  static constexpr double kHitSaves = 0.010;  // seconds
  double cost_ms_ = 3;
  std::optional<double> unaided_;  // of each round
  ExitCostBenefit worth_;
  Timings timings_;
  std::uint64_t tokens_ = 0;
};

TEST_F(ExitCostBenefitTest, TwoPassesWithoutThemTellTheirCost) {
  EXPECT_FALSE(worth_.wanted());
  EXPECT_EQ(pass(1), "");
  EXPECT_THAT(pass(1), HasSubstr("passes without exits were seen"));
  EXPECT_TRUE(worth_.wanted());
  passes(8, 1);
  ASSERT_TRUE(worth_.cost().has_value());
  EXPECT_NEAR(*worth_.cost(), 0.003, 1e-6);
}

TEST_F(ExitCostBenefitTest, TheCostIsLookedAtAgain) {
  passes(200, 1);
  cost_ms_ = 5;
  std::string why;
  for (int i = 0; i < 200 && why.empty(); ++i) why = pass(1);
  EXPECT_THAT(why, HasSubstr("to see what the exits cost"));
  EXPECT_FALSE(worth_.wanted());
  pass(1);
  EXPECT_THAT(pass(1), HasSubstr("ms a pass"));
  EXPECT_TRUE(worth_.wanted());
  EXPECT_NEAR(*worth_.cost(), 0.005, 5e-4);
}

TEST_F(ExitCostBenefitTest, StayWhereTheyForeseeMoreThanTheyCost) {
  passes(200, 0.5);  // win 5 ms
  EXPECT_TRUE(worth_.wanted());
  EXPECT_NEAR(worth_.share(), 0.5, 1e-6);
}

TEST_F(ExitCostBenefitTest, GoWhereTheyCostMoreAndComeBackLaterAndLater) {
  std::vector<std::uint64_t> tries;
  std::string why;
  while (tokens_ < 400) {
    const bool before = worth_.wanted();
    const std::string now = pass(0.1);
    if (before && !worth_.wanted() && now.find("win") != std::string::npos) why = now;
    if (now.find("whether the exits pay") != std::string::npos) tries.push_back(tokens_);
  }
  EXPECT_THAT(why, HasSubstr("cost 3.0 ms a pass and win 1.0 ms (they alone foresee 10 %)"));
  ASSERT_GE(tries.size(), 2u);
  EXPECT_GT(tries[1] - tries[0], 128u);
}

TEST_F(ExitCostBenefitTest, AreFoundWorthTheirCostWhenTheTextChanges) {
  passes(40, 0);
  ASSERT_FALSE(worth_.wanted());
  passes(600, 0.9);
  EXPECT_TRUE(worth_.wanted());
}

TEST_F(ExitCostBenefitTest, WhatCostsNothingNeedNotBringAnything) {
  cost_ms_ = 0.1;
  passes(200, 0);
  EXPECT_TRUE(worth_.wanted());
}

TEST_F(ExitCostBenefitTest, AProbeThatSeesNoPassGivesUp) {
  std::string why;
  for (int i = 0; i < 100 && why.empty(); ++i) why = worth_.decide(timings_, 0.01, ++tokens_);
  EXPECT_TRUE(worth_.wanted());
  EXPECT_THAT(why, HasSubstr("no pass without exits"));
  EXPECT_EQ(worth_.cost(), std::nullopt);
}

TEST_F(ExitCostBenefitTest, ATargetWithoutThemIsNotProbed) {
  worth_.target_has_exits(false);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(pass(0), "");
  EXPECT_FALSE(worth_.wanted());
}

TEST_F(ExitCostBenefitTest, GoAfterOnePassWhereTheRoundsComeWithoutThem) {
  unaided_ = 1;
  passes(2, 0);
  EXPECT_TRUE(worth_.wanted()) << "what they cost is not known yet";
  EXPECT_THAT(pass(0), HasSubstr("100 % of the rounds come without them"));
  passes(400, 0);
  EXPECT_FALSE(worth_.wanted());
  EXPECT_EQ(timings_.pass.count(), 1u) << "no trial while it could not pay";
}

TEST_F(ExitCostBenefitTest, AreTriedAgainOnceRoundsDoNotComeWithoutThem) {
  unaided_ = 1;
  passes(100, 0);
  ASSERT_FALSE(worth_.wanted());
  unaided_ = 0;
  passes(200, 1);
  EXPECT_TRUE(worth_.wanted());
}

TEST_F(ExitCostBenefitTest, WhereSomeRoundsDoNotComeTheyGetTheirTrial) {
  unaided_ = 0.4;  // at most 0.75 x 0.6 x 10 ms against 3
  passes(8, 0.5);
  EXPECT_TRUE(worth_.wanted());
}

}  // namespace
}  // namespace outrider

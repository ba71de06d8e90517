// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/tree_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace outrider {
namespace {

TEST(LatencyProfile, KnowsNothingAtFirst) {
  LatencyProfile profile;
  EXPECT_FALSE(profile.known());
  EXPECT_EQ(profile.ms(4, 1), 0);
}

TEST(LatencyProfile, DrawsStraightLinesBetweenShapes) {
  LatencyProfile profile;
  profile.observe(1, 1, 100);
  profile.observe(5, 1, 140);
  EXPECT_DOUBLE_EQ(profile.ms(1, 1), 100);
  EXPECT_DOUBLE_EQ(profile.ms(3, 1), 120);
  EXPECT_DOUBLE_EQ(profile.ms(5, 1), 140);
}

TEST(LatencyProfile, IsCautiousBeyondWhatItHasSeen) {
  LatencyProfile profile;
  profile.observe(1, 1, 100);
  profile.observe(5, 1, 140);
  EXPECT_DOUBLE_EQ(profile.ms(9, 1), 140 + 4 * 10 * 1.25);
}

TEST(LatencyProfile, PoolsNoiseThatFalls) {
  LatencyProfile profile;
  profile.observe(2, 1, 110);
  profile.observe(8, 1, 90);
  profile.observe(16, 1, 120);
  EXPECT_DOUBLE_EQ(profile.ms(2, 1), 100);
  EXPECT_DOUBLE_EQ(profile.ms(8, 1), 100);
  EXPECT_DOUBLE_EQ(profile.ms(16, 1), 120);
}

// A tree that would never have nine rows again would never learn that they are cheap.
TEST(LatencyProfile, OneSlowPassMakesItsRowsLittleDearer) {
  LatencyProfile profile;
  for (const auto& [rows, ms] : {std::pair{8u, 101.0}, {10u, 103.0}}) {
    for (int i = 0; i < 12; ++i) profile.observe(rows, 1, ms);
  }
  profile.observe(9, 1, 150);
  EXPECT_LT(profile.ms(9, 1) - profile.ms(8, 1), 5);
  EXPECT_NEAR(profile.ms(10, 1), 103, 3);
}

TEST(LatencyProfile, LearnsWhatLeavesCost) {
  LatencyProfile profile;
  profile.observe(8, 1, 100);
  profile.observe(8, 4, 130);
  EXPECT_NEAR(profile.ms(8, 1), 100, 1e-9);
  EXPECT_NEAR(profile.ms(8, 4), 130, 1e-9);
  EXPECT_NEAR(profile.ms(8, 2), 110, 1e-9);
}

TEST(LatencyProfile, FollowsADeviceThatSlowsDown) {
  LatencyProfile profile;
  for (int i = 0; i < 30; ++i) profile.observe(4, 1, 100);
  for (int i = 0; i < 30; ++i) profile.observe(4, 1, 1000);
  EXPECT_GT(profile.ms(4, 1), 900);
}

// A device with a knee, 4 % of noise, trees of random sizes: within 10 % after twenty passes.
TEST(LatencyProfile, PredictsUnseenShapesAfterTwentyPasses) {
  std::uint32_t random = 7;
  const auto next = [&] { return (random = random * 1664525u + 1013904223u) >> 16; };
  const auto device = [](std::size_t rows) {
    return std::max(990.0, 44.2 + 49.0 * static_cast<double>(rows));
  };
  for (int seed = 0; seed < 20; ++seed) {
    LatencyProfile profile;
    std::size_t largest = 0, least = 99;
    for (int i = 0; i < 20; ++i) {
      const std::size_t rows = 1 + next() % 32, leaves = 1 + next() % rows;
      largest = std::max(largest, rows);
      least = std::min(least, rows);
      profile.observe(rows, leaves, device(rows) * (0.96 + 0.08 * (next() % 1000) / 1000.0));
    }
    for (std::size_t rows = least; rows <= largest; ++rows) {
      EXPECT_NEAR(profile.ms(rows, 2) / device(rows), 1, 0.1) << seed << ": " << rows;
    }
    for (std::size_t rows = 1; rows < 100; ++rows) {
      EXPECT_LE(profile.ms(rows, 1), profile.ms(rows + 1, 1));
      EXPECT_LE(profile.ms(rows, 1), profile.ms(rows, 2));
    }
  }
}

TEST(LatencyProfile, RefusesWhatMakesNoSense) {
  LatencyProfile profile;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(profile.restore({0, 0, 1, 1}));
  EXPECT_FALSE(profile.restore({4, 5, 1, 1}));
  EXPECT_FALSE(profile.restore({513, 1, 1, 1}));
  EXPECT_FALSE(profile.restore({4, 1, -1, 1}));
  EXPECT_FALSE(profile.restore({4, 1, nan, 1}));
  EXPECT_FALSE(profile.restore({4, 1, 1, 0}));
  profile.observe(0, 0, 5);
  profile.observe(4, 1, 0);
  profile.observe(4, 9, 5);
  EXPECT_FALSE(profile.known());
}

constexpr double kRoomMs = 100;  // of reading, while the draft works

// Rounds that were drafted for one time and the other in turn.
double hidden_after(double one_ms, double other_ms) {
  HiddenDrafting hidden;
  for (int i = 0; i < 200; ++i) {
    const double drafted = i % 2 == 0 ? one_ms : other_ms;
    hidden.observe(drafted, -std::min(drafted, kRoomMs));
  }
  return hidden.ms();
}

TEST(HiddenDrafting, WithinTheRoomAllThatIsOftenDraftedIsHidden) {
  EXPECT_NEAR(hidden_after(20, 60), 60, 5);
  EXPECT_NEAR(hidden_after(40, 80), 80, 5);
}

TEST(HiddenDrafting, BeyondItMoreDraftingHidesNothing) {
  EXPECT_EQ(hidden_after(200, 300), 0);
}

TEST(HiddenDrafting, NothingIsKnownWhereRoundsNeverDiffer) {
  EXPECT_EQ(HiddenDrafting().ms(), 0);
  EXPECT_EQ(hidden_after(60, 60), 0);
}

constexpr double kPlainMs = 90;

// Rounds that are plain decoding's before the next tree.
int rest_of(TreePayoff& payoff) {
  int rest = 0;
  while (!payoff.begin_round()) ++rest;
  return rest;
}

void run(TreePayoff& payoff, int rounds, double tokens, double cycle_ms) {
  for (int i = 0; i < rounds; ++i) payoff.on_tree(tokens, cycle_ms, kPlainMs);
}

TEST(TreePayoff, TreesThatCostMoreThanTheyBringRestTwiceAsLongEachTime) {
  TreePayoff payoff;
  run(payoff, 8, 1, 120);
  EXPECT_EQ(rest_of(payoff), 32);
  run(payoff, 8, 1, 120);
  EXPECT_EQ(rest_of(payoff), 64);
}

TEST(TreePayoff, OneSlowFirstRoundDecidesNoTrial) {
  TreePayoff payoff;
  run(payoff, 1, 1, 300);
  run(payoff, 7, 2.3, 110);
  EXPECT_EQ(rest_of(payoff), 0);
}

TEST(TreePayoff, AFewMissesAmongGoodRoundsDecideNothing) {
  TreePayoff payoff;
  for (int i = 0; i < 20; ++i) {
    run(payoff, 3, 1, 110);
    run(payoff, 3, 3, 110);
  }
  EXPECT_EQ(rest_of(payoff), 0);
}

// Two tokens or none beyond the first, by turns: 1.5 a round, as good as plain decoding's.
TEST(TreePayoff, WhatLosesNoMoreThanAStandardErrorGoesOn) {
  TreePayoff payoff;
  for (int i = 0; i < 50; ++i) run(payoff, 1, 1 + i % 2, 1.51 * kPlainMs);
  EXPECT_EQ(rest_of(payoff), 0);
  for (int i = 0; i < 50; ++i) run(payoff, 1, 1 + i % 2, 1.8 * kPlainMs);
  EXPECT_GT(rest_of(payoff), 0);
}

TEST(TreePayoff, HoldsTreesAgainstPlainRoundsThatWereMeasured) {
  TreePayoff payoff;
  for (int i = 0; i < 4; ++i) payoff.on_plain(150);
  run(payoff, 8, 1.5, 200);  // of 225 ms; plain_ms alone would make it 135
  EXPECT_EQ(rest_of(payoff), 0);
}

}  // namespace
}  // namespace outrider

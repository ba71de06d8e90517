// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/drafting/trees/tree_memory.h"

namespace outrider {
namespace {

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

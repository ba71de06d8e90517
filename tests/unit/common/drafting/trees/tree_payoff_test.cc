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

}  // namespace
}  // namespace outrider

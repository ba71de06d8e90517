// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/law.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(RoundTokensTest, AreTheSumOfTheChances) {
  EXPECT_DOUBLE_EQ(tokens_per_round(0, 4), 1);
  EXPECT_DOUBLE_EQ(tokens_per_round(1, 4), 5);
  EXPECT_NEAR(tokens_per_round(0.5, 4), 1 + 0.5 + 0.25 + 0.125 + 0.0625, 1e-12);
}

TEST(RoundTokensTest, AcceptanceGivesTheTokensOfARound) {
  EXPECT_NEAR(acceptance_of_tau(1, 4), 0, 1e-9);
  EXPECT_NEAR(acceptance_of_tau(0.5, 4), 0, 1e-9);
  EXPECT_EQ(acceptance_of_tau(5, 4), 1);
  EXPECT_NEAR(tokens_per_round(acceptance_of_tau(2.3, 4), 4), 2.3, 1e-9);
  EXPECT_NEAR(tokens_per_round(acceptance_of_tau(2.3, 3.6), 3.6), 2.3, 1e-9);
}

}  // namespace
}  // namespace outrider

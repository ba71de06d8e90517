// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/cell_cost.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

constexpr TokenPrices kNinety{.input = 0.9, .output = 0.9, .cached_input = 0.09};

TEST(TokenCostTest, StatelessBillingReadsThePrefixAtEachPass) {
  const AnswerShape shape{
      .input_tokens = 10, .output_tokens = 4, .tokens_per_pass = 2, .drafted_per_pass = 3};
  // 10 tokens read, then 12 from the cache; 2 x 3 drafted; 2 out: over 4 tokens.
  const double wanted = (0.9 * 10 + 0.09 * 12 + 0.9 * 6 + 0.9 * 2) / 4;
  EXPECT_NEAR(edge_cost(kNinety, shape).stateless, wanted, 1e-12);
  EXPECT_NEAR(edge_cost(kNinety, shape).by_the_pass, (0.9 * 10 + 0.9 * 2) / 4, 1e-12);
  EXPECT_NEAR(plain_cost(kNinety, shape), 0.9 * 14 / 4, 1e-12);
}

// Tokens that the target writes alone continue the stream of the previous round.
TEST(TokenCostTest, PassesWithoutDraftedTokensAreNoRequests) {
  AnswerShape shape{.input_tokens = 10, .output_tokens = 4};
  shape.rounds_per_pass = 0;
  EXPECT_NEAR(edge_cost(kNinety, shape).stateless, plain_cost(kNinety, shape), 1e-12);
  shape.rounds_per_pass = 0.5;  // two requests, of which one reads the prompt
  EXPECT_NEAR(edge_cost(kNinety, shape).stateless, (0.9 * 10 + 0.09 * 12 + 0.9 * 4) / 4, 1e-12);
}

}  // namespace
}  // namespace outrider

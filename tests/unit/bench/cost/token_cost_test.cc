// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/token_cost.h"

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

TEST(TokenCostTest, BreakEvenIsWhereBothCostTheSame) {
  AnswerShape shape{
      .input_tokens = 10, .output_tokens = 20, .tokens_per_pass = 1, .drafted_per_pass = 1};
  const TokenPrices cheap_input{.input = 0.1, .output = 2, .cached_input = 0.01};
  shape.tokens_per_pass = *break_even_tokens_per_pass(cheap_input, shape);
  EXPECT_GT(shape.tokens_per_pass, 1);
  EXPECT_NEAR(edge_cost(cheap_input, shape).stateless, plain_cost(cheap_input, shape), 1e-6);
  const TokenPrices dear_input{.input = 5, .output = 0.1, .cached_input = 5};
  EXPECT_FALSE(break_even_tokens_per_pass(dear_input, shape).has_value());
}

TEST(TokenCostTest, ARoundTripPaysUpToWhatIsSaved) {
  const AnswerShape shape{.tokens_per_pass = 3, .drafted_per_pass = 4};
  EXPECT_NEAR(*break_even_round_trip_ms(shape, 10, 120, 100), 300 - 120 - 40, 1e-9);
  EXPECT_FALSE(break_even_round_trip_ms(shape, 100, 120, 100).has_value());
}

TEST(TokenCostTest, OwnHardwareIsPricedByItsTime) {
  Prices prices;
  prices.link_dollars_per_mb = 0.5;
  prices.device_watts = 10;
  prices.dollars_per_kwh = 0.3;
  const OwnCost cost = own_cost(prices, {.target_ms = 36, .draft_ms = 3.6, .bytes = 100});
  EXPECT_FALSE(cost.gpu.has_value());
  EXPECT_NEAR(cost.link, 50, 1e-9);
  EXPECT_NEAR(cost.device, 0.003, 1e-12);
  prices.gpu_dollars_per_hour = 2;
  EXPECT_NEAR(*own_cost(prices, {.target_ms = 36}).gpu, 20, 1e-9);
}

}  // namespace
}  // namespace outrider

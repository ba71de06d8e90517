// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/market.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::Optional;

using Nodes = std::vector<std::optional<std::size_t>>;

RowCurve curve_of(const std::vector<std::pair<double, double>>& rows_and_ms) {
  std::vector<RowTime> means;
  for (const auto& [rows, ms] : rows_and_ms) means.push_back({rows, ms / 1e3, 1});
  return RowCurve(means);
}

// 10 ms, and 1 ms more for each row beyond the fourth.
const RowCurve kCurve = curve_of({{1, 10}, {4, 10}, {64, 70}});

TEST(MarketTest, WithoutAPriceAllRideThatFitTheMostPromisingFirst) {
  const std::vector<RowOffer> offers = {{.chances = {0.9f, 0.5f}}, {.chances = {0.8f, 0.1f}}};
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 100}),
              ElementsAre(Optional(2u), Optional(2u)));
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 5}),
              ElementsAre(Optional(2u), Optional(1u)));
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 3}),
              ElementsAre(Optional(1u), Optional(0u)));
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 1}),
              ElementsAre(Optional(0u), std::nullopt));
}

TEST(MarketTest, ARowRidesIfItBringsMoreThanItsTimeTakesFromAll) {
  // A row beyond the fourth costs 1 ms at 400 tokens a second: 0.4 tokens.
  const std::vector<RowOffer> offers = {{.chances = {0.9f, 0.8f, 0.7f, 0.6f}},
                                        {.chances = {0.45f, 0.35f, 0.3f}}};
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 100, .price = 400}),
              ElementsAre(Optional(4u), Optional(1u)));
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 100, .price = 650}),
              ElementsAre(Optional(3u), Optional(0u)));
}

TEST(MarketTest, CheapRowsBehindADearOneAreFound) {
  // Between 4 and 5 rows a step, then flat: kernels work in tiles.
  const RowCurve steps = curve_of({{1, 10}, {4, 10}, {5, 14}, {16, 14}});
  const std::vector<RowOffer> offers = {{.chances = std::vector<float>(15, 0.5f)}};
  // The fifth row alone costs 0.8 tokens, all twelve bring 6.
  EXPECT_THAT(choose_rows(offers, steps, {.most_rows = 100, .price = 200}),
              ElementsAre(Optional(15u)));
  EXPECT_THAT(choose_rows(offers, steps, {.most_rows = 100, .price = 2000}),
              ElementsAre(Optional(3u)));
}

TEST(MarketTest, TokensThatCountLessWait) {
  // Twelve sessions of one that has had more than its share, and one of another.
  std::vector<RowOffer> offers(12, {.weight = 0.1, .chances = {0.9f}});
  offers.push_back({.weight = 1, .chances = {0.9f, 0.8f}});
  const Nodes nodes = choose_rows(offers, kCurve, {.most_rows = 100, .price = 300});
  EXPECT_THAT(nodes.back(), Optional(2u));
  EXPECT_THAT(nodes.front(), Optional(0u)) << "the fourth row costs nothing";
  EXPECT_EQ(nodes[1], std::nullopt);
}

TEST(MarketTest, ATokenForSureGoesBeforeANodeOfTheSameWorth) {
  const std::vector<RowOffer> offers = {{.weight = 2, .chances = {0.5f}}, {.weight = 1}};
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 2}),
              ElementsAre(Optional(0u), Optional(0u)));
}

TEST(MarketTest, SomebodyRidesWhateverItCosts) {
  const std::vector<RowOffer> offers = {{.weight = 0.9, .chances = {0.5f}},
                                        {.weight = 0.9, .chances = {0.5f}}};
  const RowCurve steep = curve_of({{1, 10}, {2, 100}});
  EXPECT_THAT(choose_rows(offers, steep, {.most_rows = 100, .price = 1e6}),
              ElementsAre(Optional(0u), std::nullopt));
  EXPECT_THAT(choose_rows(offers, steep, {.most_rows = 0, .price = 0}),
              ElementsAre(Optional(0u), std::nullopt));
}

TEST(MarketTest, ASureTokenOfAPlainSessionOfFullWeightRidesWhateverItCosts) {
  const std::vector<RowOffer> offers = {{.is_plain = true, .chances = {0.9f}},
                                        {.is_plain = true, .weight = 4},
                                        {.is_plain = true, .weight = 0.5},
                                        {.is_plain = true}};
  const RowCurve steep = curve_of({{1, 10}, {2, 100}, {3, 1000}});
  EXPECT_THAT(choose_rows(offers, steep, {.most_rows = 100, .price = 1e6}),
              ElementsAre(Optional(0u), Optional(0u), std::nullopt, Optional(0u)));
  EXPECT_THAT(choose_rows(offers, steep, {.most_rows = 2, .price = 1e6}),
              ElementsAre(Optional(0u), Optional(0u), std::nullopt, std::nullopt));
}

TEST(MarketTest, PromptsRideAnyhowAndTheirRowsMakeTheOthersDearer) {
  const std::vector<RowOffer> offers = {{.prompt_rows = 4}, {.chances = {0.5f}}};
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 100, .price = 600}),
              ElementsAre(Optional(0u), Optional(0u)));
  EXPECT_THAT(choose_rows(offers, kCurve, {.most_rows = 2, .price = 0}),
              ElementsAre(Optional(0u), std::nullopt))
      << "a prompt larger than the pass";
}

TEST(MarketTest, NobodyThereNobodyRides) {
  EXPECT_THAT(choose_rows({}, kCurve, {.most_rows = 10}), ElementsAre());
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/cost/break_even.h"

#include <gtest/gtest.h>

#include "bench/cost/cell_cost.h"
#include "bench/harness/law.h"

namespace outrider {
namespace {

Prices even_prices() {
  Prices prices;
  prices.api = {.input = 0.1, .output = 2, .cached_input = 0.01};
  prices.gpu_dollars_per_hour = 2;
  return prices;
}

// T_p 10 ms, T_q 100 ms for one row and 120 ms for five.
ModelledPair pair_at(double tau, double round_trip_ms, const Prices& by = even_prices()) {
  return modelled_pair({.input_tokens = 10,
                        .output_tokens = 60,
                        .tau = tau,
                        .gamma = 4,
                        .round_trip_ms = round_trip_ms,
                        .round_bytes = 90,
                        .token_bytes = 40},
                       10, *PaceCurve::create({{1, 100}, {5, 120}}), by);
}

// A run in which drafting has the tokens that it needs costs what plain decoding costs.
TEST(BreakEvenTest, NeededTokensMakeBothCostTheSame) {
  for (const CostKind kind :
       {CostKind::kTime, CostKind::kApiStateless, CostKind::kGpuShared, CostKind::kGpuReserved}) {
    const ModelledPair pair = pair_at(2.5, 100);
    const auto needed =
        needed_tokens(*pair.edge_cost.of(kind), pair.edge, *pair.plain_cost.of(kind));
    ASSERT_TRUE(needed && needed->acceptance) << name_of(kind);
    EXPECT_NEAR(tokens_per_round(*needed->acceptance, 4), needed->tokens_per_pass, 1e-6);
    const ModelledPair there = pair_at(needed->tokens_per_pass, 100);
    EXPECT_NEAR(*there.edge_cost.total(kind), *there.plain_cost.total(kind), 1e-6) << name_of(kind);
  }
}

TEST(BreakEvenTest, SomeBillsNeverPayAndSomeAlwaysDo) {
  Prices dear = even_prices();
  dear.api = {.input = 5, .output = 0.1, .cached_input = 5};
  const ModelledPair pair = pair_at(2.5, 0, dear);
  const auto never = needed_tokens(*pair.edge_cost.of(CostKind::kApiStateless), pair.edge,
                                   *pair.plain_cost.of(CostKind::kApiStateless));
  EXPECT_FALSE(never->acceptance.has_value());
  const auto always = needed_tokens(*pair.edge_cost.of(CostKind::kApiByThePass), pair.edge,
                                    *pair.plain_cost.of(CostKind::kApiByThePass));
  EXPECT_NEAR(*always->acceptance, 0, 1e-6);
  EXPECT_FALSE(needed_tokens({}, pair.edge, {}).has_value()) << "nothing costs anything";
}

TEST(BreakEvenTest, TheAcceptanceOfARunIsThatOfItsRounds) {
  AnswerUse use = pair_at(tokens_per_round(0.7, 4), 0).edge;
  EXPECT_NEAR(*acceptance_now(use), 0.7, 1e-6);
  use.passes += use.rounds;  // as many that the target went on alone, a token each
  use.output_tokens += use.rounds;
  EXPECT_NEAR(*acceptance_now(use), 0.7, 1e-6);
  EXPECT_FALSE(acceptance_now(pair_at(2, 0).plain).has_value());
}

// The law's own: τ T_1 - γ T_p - T_q.
TEST(BreakEvenTest, ARoundTripPaysUpToWhatIsSaved) {
  const ModelledPair pair = pair_at(3, 20);
  for (const CostKind kind : {CostKind::kTime, CostKind::kGpuReserved}) {
    const auto per_ms = pair.cost_of_a_round_trip_ms(kind, even_prices());
    ASSERT_TRUE(per_ms.has_value());
    EXPECT_NEAR(*break_even_round_trip_ms(*pair.edge_cost.total(kind), *pair.plain_cost.total(kind),
                                          20, *per_ms),
                300 - 40 - 120, 1e-6);
  }
  EXPECT_FALSE(pair.cost_of_a_round_trip_ms(CostKind::kApiStateless, even_prices()).has_value());
  EXPECT_FALSE(break_even_round_trip_ms(100, 50, 20, 1).has_value()) << "at none";
}

TEST(BreakEvenTest, RoundTripsThatWereMeasuredSayWhereItStops) {
  const PaysUpTo up_to = pays_up_to({{100, 1.19}, {20, 0.5}, {60, 0.79}});
  EXPECT_NEAR(*up_to.round_trip_ms, 80, 1e-9) << "a straight line, by the distance";
  EXPECT_EQ(to_string(up_to), "up to 80 ms");
  EXPECT_EQ(to_string(pays_up_to({{20, 0.5}, {60, 0.8}})), "at all 2");
  EXPECT_EQ(to_string(pays_up_to({{20, 0.995}, {60, 1.8}})), "at none of 2") << "not 1 % less";
  EXPECT_EQ(to_string(pays_up_to({{20, 1.5}, {60, 0.8}, {90, 1.2}})), "at 1 of 3");
}

TEST(BreakEvenTest, StrategiesAreHeldAgainstPlainDecodingAtTheirSetting) {
  std::vector<CostedCell> cells;
  const auto add = [&](double round_trip, const std::string& variant, const AnswerUse& use) {
    cells.push_back({.setting = "at " + std::to_string(round_trip),
                     .device = "a100",
                     .variant = variant,
                     .round_trip_ms = round_trip,
                     .use = use,
                     .cost = cell_cost(even_prices(), DraftPlace::kEdge, use)});
  };
  for (const double round_trip : {50.0, 250.0}) {
    const ModelledPair pair = pair_at(3, round_trip);
    add(round_trip, "ar", pair.plain);
    add(round_trip, "sd", pair.edge);
  }
  add(400, "sd", pair_at(3, 400).edge);  // nothing to hold it against
  const std::vector<BreakEven> found = break_evens(cells, "ar");
  ASSERT_EQ(found.size(), 1u);
  const auto& time = found[0].kinds.at(static_cast<std::size_t>(CostKind::kTime));
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->round_trips.of, 2u);
  EXPECT_NEAR(*time->round_trips.round_trip_ms, 140, 4) << "99 % of plain decoding";
  EXPECT_NEAR(tokens_per_round(*time->least_needed, 4), (50 + 40 + 120) / 100.0, 1e-6);
  EXPECT_NEAR(tokens_per_round(*time->most_needed, 4), (250 + 40 + 120) / 100.0, 1e-6);
  EXPECT_EQ(to_json(found[0])["time"]["round_trips"]["pays"].get<int>(), 1);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/rivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/decoding/drafting/hypothesis_tree.h"
#include "edge_client/speculation/strategies.h"

namespace outrider {
namespace {

using testing::Each;
using testing::Le;

SpeculationOptions two_tokens(std::string_view rival) {
  return {.strategy = StrategyChoice(*find_rival(rival)), .gamma = 2};
}

// 5 - 8 is in flight as a round of two; 6 and 7 were guessed beside 5, 9 and 10 after 8.
class RivalTest : public testing::Test {
 protected:
  explicit RivalTest(std::string_view name) : strategy_(make_strategy(two_tokens(name))) {
    nodes_.restart(std::vector<TokenId>{1, 2, 3});
    nodes_.add_guesses(kRoot, {{5, 0.5f}, {6, 0.3f}, {7, 0.1f}});
    nodes_.add_guesses(at({5}), {{8, 0.6f}, {11, 0.2f}});
    nodes_.send_round({.length = 2}, 64, 100);
    nodes_.on_pass_started(2, {});
  }

  NodeIndex at(const std::vector<TokenId>& path) const {
    NodeIndex node = kRoot;
    for (const TokenId token : path) node = nodes_.tree().child(node, token);
    return node;
  }
  double worth(const std::vector<TokenId>& path) {
    return strategy_->grow_ahead(timings_)->worth(nodes_.weighed(), at(path));
  }
  void guess_after_the_round() { nodes_.add_guesses(at({5, 8}), {{9, 0.7f}, {10, 0.2f}}); }

  const std::unique_ptr<SpeculationStrategy> strategy_;
  HypothesisTree nodes_;
  Timings timings_;
};

void expect_rounds_on_request(const SpeculationStrategy& strategy) {
  EXPECT_EQ(strategy.pass_policy().pass_policy, PassPolicy::kOnRequest);
  EXPECT_FALSE(strategy.pass_policy().wants_exits);
  EXPECT_TRUE(strategy.speculates());
  EXPECT_EQ(strategy.wait_for(), 2u);
}

// --- specedge -----------------------------------------------------------------------------------

class SpecEdgeTest : public RivalTest {
 protected:
  SpecEdgeTest() : RivalTest("specedge") {}
};

TEST_F(SpecEdgeTest, OnlyTheSingleBestNextGuessIsDraftedAhead) {
  expect_rounds_on_request(*strategy_);
  EXPECT_GT(worth({5, 8}), 0) << "its row guesses the token after the round";
  EXPECT_EQ(worth({6}), 0) << "another outcome";
  guess_after_the_round();
  EXPECT_GT(worth({5, 8, 9}), 0);
  EXPECT_EQ(worth({5, 8, 10}), 0) << "the second guess";
}

TEST_F(SpecEdgeTest, ARoundAheadHasTheLengthOfARoundAndWaitsForTheVerdict) {
  guess_after_the_round();
  nodes_.add_guesses(at({5, 8, 9}), {{12, 0.9f}});
  EXPECT_GT(worth({5, 8, 9, 12}), 0) << "its row is the second drafted token";
  nodes_.add_guesses(at({5, 8, 9, 12}), {{13, 0.9f}});
  EXPECT_EQ(worth({5, 8, 9, 12, 13}), 0);
  EXPECT_EQ(strategy_->select_ahead({.room = 64, .link_room = 1e6}, timings_), std::nullopt);
}

// --- ssd ----------------------------------------------------------------------------------------

TEST(GeometricFanOutTest, FallsFromPositionToPositionAndIsWideAfterAWholeRound) {
  const std::vector<int> counts = geometric_fan_out(0.7, 4, 16);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 16);
  // 0.7^(k/2) = 1, .837, .7, .586 and .49 / sqrt(.3) = .895, of 16: 3.98, 3.33, 2.79, 2.33, 3.56
  EXPECT_EQ(counts, (std::vector<int>{4, 3, 3, 2, 4}));
}

TEST(GeometricFanOutTest, StaysWithinItsBoundsWhateverIsMeasured) {
  for (const double acceptance : {0.0, 0.3, 0.99, 1.0}) {
    for (const int gamma : {1, 4, 16, 64}) {
      const std::vector<int> counts = geometric_fan_out(acceptance, gamma, 16);
      EXPECT_EQ(counts.size(), static_cast<std::size_t>(gamma) + 1);
      EXPECT_THAT(counts, Each(Le(6)));
      EXPECT_LE(std::accumulate(counts.begin(), counts.end(), 0), 16);
      EXPECT_GT(counts.back() + counts.front(), 0);
    }
  }
}

class SsdTest : public RivalTest {
 protected:
  SsdTest() : RivalTest("ssd") {}
};

TEST_F(SsdTest, RoundsForManyOutcomesAreDraftedInStep) {
  expect_rounds_on_request(*strategy_);
  guess_after_the_round();
  EXPECT_GT(worth({6}), 0) << "nothing accepted, then 6";
  EXPECT_GT(worth({7}), 0);
  EXPECT_GT(worth({5, 11}), 0) << "one accepted, then 11";
  EXPECT_GT(worth({5, 8, 9}), 0) << "both accepted";
  EXPECT_GT(worth({5, 8, 10}), 0);
  nodes_.add_guesses(at({5, 8, 9}), {{12, 0.9f}, {13, 0.05f}});
  EXPECT_GT(worth({7}), worth({5, 8, 9, 12})) << "first tokens of all before second ones of any";
  EXPECT_EQ(worth({5, 8, 9, 13}), 0) << "a chain, not a tree";
  EXPECT_EQ(strategy_->select_ahead({.room = 64, .link_room = 1e6}, timings_), std::nullopt);
}

TEST_F(SsdTest, WhatFollowsAWholeRoundIsGuessedFirst) {
  EXPECT_GT(worth({5, 8}), worth({6}));
}

TEST_F(SsdTest, AGoodDraftMovesTheFanOutToTheRoundsEnd) {
  EXPECT_GT(worth({7}), 0);
  for (int i = 0; i < 400; ++i) strategy_->on_verdict({.tokens = 3, .depth = 2}, timings_);
  const int good = strategy_->grow_ahead(timings_)->fan_out();
  for (int i = 0; i < 400; ++i) strategy_->on_verdict({.tokens = 1, .depth = 2}, timings_);
  EXPECT_NE(good, 0);
  EXPECT_GT(geometric_fan_out(0.95, 2, 16).back(), geometric_fan_out(0.1, 2, 16).back());
}

// --- picospec -----------------------------------------------------------------------------------

class PicoSpecTest : public RivalTest {
 protected:
  PicoSpecTest() : RivalTest("picospec") {}

  std::optional<AheadSelection> selection() const {
    return strategy_->select_ahead({.room = 64, .link_room = 1e6}, timings_);
  }
};

TEST_F(PicoSpecTest, TheNextChainLeavesWholeBeforeTheVerdict) {
  expect_rounds_on_request(*strategy_);
  EXPECT_EQ(strategy_->pass_policy().row_limit, 2u) << "a pass verifies one round";
  ASSERT_TRUE(selection().has_value());
  EXPECT_EQ(selection()->limits.whole, 2u);
  EXPECT_EQ(selection()->limits.least, 2u);
  EXPECT_EQ(selection()->round.most, 2u);
  EXPECT_EQ(worth({6}), 0) << "no fan-out";
  guess_after_the_round();
  EXPECT_GT(worth({5, 8, 9}), 0);
  EXPECT_EQ(worth({5, 8, 10}), 0);
}

TEST_F(PicoSpecTest, ALongLinkIsFilledWithSomeRoundsButNotWithoutEnd) {
  timings_.plain_pass.add(1, from_ms(20));
  timings_.on_request_served(from_ms(45));
  EXPECT_EQ(selection()->round.most, 6u) << "two passes fit the round trip";
  timings_.on_request_served(from_ms(10000));
  EXPECT_EQ(selection()->round.most, 8u);
}

}  // namespace
}  // namespace outrider

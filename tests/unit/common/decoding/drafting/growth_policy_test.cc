// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/growth_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/engine/sampling/guess.h"

namespace outrider {
namespace {

// text - a(.8) - b(.5) - d(.5)
//            \ c(.2)
class Weights : public testing::Test {
 protected:
  Weights() {
    a_ = add(kRoot, 1, 0.8f);
    b_ = add(a_, 2, 0.5f);
    c_ = add(a_, 3, 0.2f);
    d_ = add(b_, 4, 0.5f);
  }

  NodeIndex add(NodeIndex parent, TokenId token, float confidence) {
    const NodeIndex node = tree_.add(parent, token);
    tree_.set_confidence(node, confidence);
    return node;
  }

  std::vector<double> weigh(const std::vector<OutcomeAdvice>& advice) {
    std::vector<double> weights;
    weigh_outcomes(tree_, advice, weights);
    return weights;
  }

  MirroredTree tree_{{0}};
  NodeIndex a_, b_, c_, d_;
};

TEST_F(Weights, WithoutNewsAreProductsOfThePath) {
  EXPECT_THAT(weigh({}), testing::Pointwise(testing::DoubleNear(1e-6), {0.8, 0.4, 0.16, 0.2}));
}

TEST_F(Weights, AnExitMovesItsOutcomeAndKeepsTheOthersInProportion) {
  const std::vector<double> weights = weigh({{c_, 0.9}});
  EXPECT_NEAR(weights[static_cast<std::size_t>(c_)], 0.9, 1e-6);
  // Before: a without c .64 of the .84 that are not c; b .40 of them.
  EXPECT_NEAR(weights[static_cast<std::size_t>(a_)], 0.9 + 0.1 * 0.64 / 0.84, 1e-6);
  EXPECT_NEAR(weights[static_cast<std::size_t>(b_)], 0.1 * 0.40 / 0.84, 1e-6);
  EXPECT_NEAR(weights[static_cast<std::size_t>(d_)], 0.1 * 0.20 / 0.84, 1e-6);
}

TEST_F(Weights, WhatHangsBelowAnOutcomeRisesWithIt) {
  const std::vector<double> weights = weigh({{b_, 0.8}});
  EXPECT_NEAR(weights[static_cast<std::size_t>(d_)], 0.4, 1e-6);
}

TEST_F(Weights, TheLatestOfTwoExitsCountsMost) {
  const std::vector<double> weights = weigh({{c_, 0.9}, {d_, 0.7}});
  EXPECT_NEAR(weights[static_cast<std::size_t>(d_)], 0.7, 1e-6);
  EXPECT_LT(weights[static_cast<std::size_t>(c_)], 0.3);
  EXPECT_GE(weights[static_cast<std::size_t>(b_)], 0.7);
}

TEST_F(Weights, CertaintyAndImpossibilityCanBeTakenBack) {
  const std::vector<double> weights = weigh({{c_, 1.0}, {c_, 0.0}, {b_, 1.0}});
  EXPECT_GT(weights[static_cast<std::size_t>(b_)], 0.99);
  for (const double weight : weights) {
    EXPECT_GE(weight, 0.0);
    EXPECT_LE(weight, 1.0 + 1e-9);
  }
}

TEST_F(Weights, AdviceOnADeadNodeIsForgotten) {
  EXPECT_THAT(weigh({{77, 0.9}}), testing::ElementsAreArray(weigh({})));
}

TEST_F(Weights, TheLikeliestChainFollowsTheConfidences) {
  const LikeliestChain all = likeliest_chain(tree_, kRoot, {.most = 9});
  EXPECT_THAT(all.nodes, testing::ElementsAre(a_, b_, d_));
  EXPECT_FALSE(all.whole) << "what follows d is not drafted";
  tree_.set_confidence(c_, 0.6f);
  EXPECT_THAT(likeliest_chain(tree_, kRoot, {.most = 9}).nodes, testing::ElementsAre(a_, c_));
  const LikeliestChain one = likeliest_chain(tree_, kRoot, {.most = 1});
  EXPECT_THAT(one.nodes, testing::ElementsAre(a_));
  EXPECT_TRUE(one.whole);
  EXPECT_TRUE(likeliest_chain(tree_, kRoot, {.most = 0}).whole);
}

TEST_F(Weights, AChainEndsBeforeItBecomesTooUnlikely) {
  const double chance = static_cast<double>(tree_.node(a_).confidence) * tree_.node(b_).confidence;
  const LikeliestChain two = likeliest_chain(tree_, kRoot, {.most = 9, .least_chance = chance});
  EXPECT_THAT(two.nodes, testing::ElementsAre(a_, b_));
  EXPECT_TRUE(two.whole);
  const LikeliestChain first = likeliest_chain(tree_, kRoot, {.most = 9, .least_chance = 1});
  EXPECT_THAT(first.nodes, testing::ElementsAre(a_)) << "the first token always goes along";
  EXPECT_TRUE(first.whole);
  const LikeliestChain under = likeliest_chain_from(tree_, b_, {.most = 9, .least_chance = 0.01});
  EXPECT_EQ(under.nodes.front(), b_) << "chances count from its first node";
}

TEST(Calibrated, ADraftIsBelievedUntilItIsKnown) {
  const GuessCalibration fresh;
  EXPECT_NEAR(fresh.right(0, 0.7f), 0.7f, 1e-6);
  EXPECT_NEAR(fresh.right(9, 0.1f), 0.1f, 1e-6);
}

TEST(Calibrated, BoastingIsSeenThroughForItsRankAndConfidenceOnly) {
  GuessCalibration known;
  for (int i = 0; i < 200; ++i) known.observe(0, 0.95f, i % 4 == 0);
  EXPECT_NEAR(known.right(0, 0.95f), 0.25f, 0.1f);
  EXPECT_NEAR(known.right(0, 0.5f), 0.5f, 1e-6);
  EXPECT_NEAR(known.right(1, 0.95f), 0.95f, 1e-6);
}

TEST(Calibrated, NoConfidenceIsOutOfRange) {
  GuessCalibration known;
  for (const float odd : {-1.0f, 0.0f, 1.0f, 7.0f, std::nanf("")}) {
    known.observe(0, odd, true);
    EXPECT_GE(known.right(0, odd), 0.0f);
    EXPECT_LE(known.right(0, odd), 1.0f);
  }
}

}  // namespace
}  // namespace outrider

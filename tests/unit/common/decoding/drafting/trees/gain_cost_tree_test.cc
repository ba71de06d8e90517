// The examples are worked by hand from the equations. SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/gain_cost_tree.h"

#include <gtest/gtest.h>

#include "tests/unit/common/decoding/drafting/trees/scripted_draft.h"

namespace outrider {
namespace {

// text - a(.7) - c(.6)
//      |      \ d(.3)
//      \ b(.2)
const ScriptedDraft::Script kTree = {{"", "a.7 b.2"}, {"a", "c.6 d.3"}, {"ac", "e.5"}};

// A device that reads its weights for 100 ms, in which it computes two rows; each further row takes
// 20 ms.
LatencyProfile knee() {
  LatencyProfile profile;
  EXPECT_TRUE(profile.restore({1, 1, 100, 4}));
  EXPECT_TRUE(profile.restore({2, 1, 100, 4}));
  EXPECT_TRUE(profile.restore({8, 1, 220, 4}));
  return profile;
}

class GainCostTest : public testing::Test {
 protected:
  void draft(const GainCostTree::Options& options, double draft_ms) {
    GainCostTree planner(options, memory_, [=](std::size_t) { return draft_ms; });
    script_.draft(planner);
  }

  TreeMemory memory_{.passes = knee(), .hidden = {}, .payoff = {}};
  ScriptedDraft script_{kTree};
};

// Draft steps of 1 ms. dC of a node is its verification and the step that names its children.
//   root's row   C = 1 + 100, G = 1
//   a   dC = .2 (0, at least .2 % of 101) + 1    .7 / 1.2 > 1 / 101            -> add, G 1.7
//   ac  dC = 20 + 1   .42 / 21 = .0200 > 1.7 / 102 = .0167                     -> add, G 2.12
//   ad  dC = 20 + 1   .21 / 21 = .0100 < 2.12 / 123 = .0172; b .0095; ace .0100 -> stop
TEST_F(GainCostTest, LeverAddsWhatGainsMoreThanTheAverage) {
  draft({}, 1);
  EXPECT_EQ(script_.round(), "a ac");
  EXPECT_EQ(script_.rows(), "- a c");
}

// Draft steps of 10 ms: ac  .42 / 30 = .0140 < 1.7 / 120 = .0142                -> stop
TEST_F(GainCostTest, LeverStopsWhereDraftingIsDear) {
  draft({}, 10);
  EXPECT_EQ(script_.round(), "a");
  EXPECT_EQ(script_.rows(), "- a");
}

// Ours does not run a's row for that answer: its best child may gain .7 * .6 = .42, at 10 + 20 ms
// .0140; and G / C = 1.7 / 110 = .0155, as a's row is not part of C.
TEST_F(GainCostTest, OursDoesNotRunARowThatDoesNotPay) {
  draft({.separate_rows = true}, 10);
  EXPECT_EQ(script_.round(), "a");
  EXPECT_EQ(script_.rows(), "-");
}

// Where verification is free up to the knee, a node needs no row of the draft to be worth adding.
TEST_F(GainCostTest, OursFillsWhatReadingHides) {
  memory_.passes = LatencyProfile();
  ASSERT_TRUE(memory_.passes.restore({1, 1, 100, 4}));
  ASSERT_TRUE(memory_.passes.restore({4, 1, 100, 4}));
  ASSERT_TRUE(memory_.passes.restore({8, 1, 340, 4}));
  draft({.separate_rows = true}, 40);
  EXPECT_EQ(script_.round(), "a b");
  EXPECT_EQ(script_.rows(), "-");
}

// Where candidates hold the token in half of the places, and promise .9 together, every chance is
// taken for .5 / .9 of itself.
TEST_F(GainCostTest, ReliabilityLowersWhatIsPromised) {
  GainCostTree planner({}, memory_, [](std::size_t) { return 1.0; });
  EXPECT_DOUBLE_EQ(planner.reliability(), 1);
  script_.draft(planner);
  script_.commit("ax", planner);  // a was among the candidates, x was not
  EXPECT_NEAR(planner.reliability(), 1 - 0.1 * 0.5, 1e-9);
  for (int i = 0; i < 200; ++i) {
    ScriptedDraft wrong(kTree);
    wrong.draft(planner);
    wrong.commit("x", planner);
  }
  EXPECT_LT(planner.reliability(), 0.01);
  ScriptedDraft distrusted(kTree);
  distrusted.draft(planner);
  EXPECT_EQ(distrusted.round(), "");
}

// The cost of one row is measured before that of trees; the cost between them is linear.
TEST_F(GainCostTest, WithoutAProfileAPlainRoundComesFirstThenTheLikeliestNodes) {
  memory_.passes = LatencyProfile();
  GainCostTree planner({.first_nodes = 3}, memory_, [](std::size_t) { return 1.0; });
  script_.draft(planner);
  EXPECT_EQ(script_.round(), "");
  script_.commit("x", planner, {.rows = 1, .ms = 100});
  ScriptedDraft second(kTree);
  second.draft(planner);
  EXPECT_EQ(second.round(), "a ac ad") << "by chance: .7, .42, .21; b .2";
}

TEST_F(GainCostTest, ThePassOverThePromptIsNoRound) {
  GainCostTree planner({.separate_rows = true}, memory_, [](std::size_t) { return 1.0; });
  for (int i = 0; i < 8; ++i) planner.on_verdict({}, {.rows = 0, .ms = 5000});
  script_.draft(planner);
  EXPECT_NE(script_.round(), "") << "trees do not rest";
}

// A step for nothing, an answer's own work: what a round took is more than its parts.
TEST_F(GainCostTest, TreesRestWhereWholeRoundsTakeLongerThanPlainOnes) {
  GainCostTree planner({.separate_rows = true}, memory_, [](std::size_t) { return 1.0; });
  for (int i = 0; i < 8; ++i) {
    ScriptedDraft draft(kTree);
    draft.draft(planner);
    ASSERT_NE(draft.round(), "");
    draft.commit("ac", planner, {.rows = 3, .ms = 120, .cycle_ms = 250});
  }
  EXPECT_TRUE(memory_.payoff.rests()) << "two tokens in 250 ms, and one in 100";
}

TEST_F(GainCostTest, VerdictsTeachTheProfile) {
  memory_.passes = LatencyProfile();
  memory_.passes.observe(1, 1, 100);
  GainCostTree planner({}, memory_, [](std::size_t) { return 1.0; });
  script_.draft(planner);
  script_.commit("ax", planner, {.rows = 9, .ms = 250});
  EXPECT_DOUBLE_EQ(memory_.passes.ms(9, 1), 250);
}

TEST_F(GainCostTest, OursLeavesRoundsToPlainDecodingWhereTreesLose) {
  memory_.passes = LatencyProfile();
  for (std::int32_t rows = 1; rows <= 8; ++rows) {
    ASSERT_TRUE(memory_.passes.restore({rows, 1, 100.0 * rows, 4}));
  }
  const auto plain_rounds = [&](int rounds) {
    GainCostTree planner({.separate_rows = true}, memory_, [](std::size_t) { return 200.0; });
    int plain = 0;
    for (int i = 0; i < rounds; ++i) {
      ScriptedDraft draft(kTree);
      draft.draft(planner);
      plain += draft.rows().empty() ? 1 : 0;
      draft.commit("x", planner, {.rows = 2, .ms = 200});
    }
    return plain;
  };
  EXPECT_EQ(plain_rounds(40), 32) << "eight rounds show that trees lose";
  EXPECT_EQ(plain_rounds(72), 64) << "the next answer knows it; eight rounds try again";
}

}  // namespace
}  // namespace outrider

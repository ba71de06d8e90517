// The examples are worked by hand from the equations. SPDX-License-Identifier: Apache-2.0
#include "common/drafting/trees/branch_pacer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/common/drafting/trees/scripted_draft.h"

namespace outrider {
namespace {

// text - a(.6) - c(.5)
//      |      \ d(.2)
//      \ b(.35) - e(.9)
const ScriptedDraft::Script kTwoBranches = {
    {"", "a.6 b.35"}, {"a", "c.5 d.2"}, {"b", "e.9"}, {"ac", "f.9"}, {"be", "g.9"}};

// EdgeLLM, equations 1 and 2, M C_i - T_i:
//   a, b        M 2:  a 2*.6-1 = .2     b 2*.35-1 = -.3                      -> a
//   a, b, ac    M 3:  ac 3*.3-2 = -1.1  b 3*.35-1 = .05                      -> b
//   .., be      Tc = max(.3, .315) = .315 < .32                              -> verify
TEST(EdgeLlmTree, GrowsTheBranchThatIsFurthestBelowItsDueLength) {
  BranchPacer planner({.normalised = false, .threshold = 0.32});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  EXPECT_EQ(draft.rows(), "- a b");
  EXPECT_EQ(draft.round(), "a b ac be");
}

// LLMCad divides by the sum of the C_i. With C .6 and .35 and a threshold of .3:
//   a, b        M 2:  a 2*.6/.95-1 = .26     b -.26                          -> a
//   a, b, ac    M 3:  ac 3*.3/.65-2 = -.62   b 3*.35/.65-1 = .62             -> b
//   .., be      M 4:  ac 4*.3/.615-2 = -.05  be 4*.315/.615-2 = .05          -> be
//   .., beg     C .2835: Tc = .3 (ac), no less than .3; M 5:
//               ac 5*.3/.5835-2 = .57        beg 5*.2835/.5835-3 = -.57      -> ac
//   .., acf     Tc = max(.27, .2835) < .3                                    -> verify
TEST(LlmCadTree, SharesTheTokensByNormalisedConfidence) {
  BranchPacer planner({.normalised = true, .threshold = 0.3});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  EXPECT_EQ(draft.rows(), "- a b e c");
  EXPECT_EQ(draft.round(), "a b ac be beg acf");
}

// EdgeLLM on the same tree at the same threshold goes another way: at M 5 it sees
//   ac 5*.3-2 = -.5    beg 5*.2835-3 = -1.58, and at M 4  ac -.8  be -.74.
TEST(EdgeLlmTree, CountsConfidenceAsItIs) {
  BranchPacer planner({.normalised = false, .threshold = 0.3});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  EXPECT_EQ(draft.rows(), "- a b e c");
}

// Equation 3 after the round a b ac be, whose Tc is .315.
TEST(BranchPacer, TheThresholdHalvesWhereTheBranchStood) {
  BranchPacer planner({.threshold = 0.32});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  draft.commit("acx", planner);  // both tokens of the branch that matches best
  EXPECT_DOUBLE_EQ(planner.threshold(), 0.16);
}

TEST(BranchPacer, TheThresholdRisesByTheShareThatFell) {
  BranchPacer planner({.threshold = 0.32});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  draft.commit("ax", planner);  // one of two: .32 / .315^(1/2)
  EXPECT_NEAR(planner.threshold(), 0.32 / std::sqrt(0.315), 1e-6);
}

TEST(BranchPacer, TheThresholdStaysBelowOne) {
  BranchPacer planner({.threshold = 0.32});
  for (int i = 0; i < 20; ++i) {
    ScriptedDraft draft({{"", "a.4"}, {"a", "b.4"}});
    draft.draft(planner);
    draft.commit("x", planner);
    EXPECT_LT(planner.threshold(), 1);
  }
  // So it tries again, and a draft that is right is trusted again.
  ScriptedDraft draft({{"", "a.97"}, {"a", "b.97"}});
  draft.draft(planner);
  EXPECT_EQ(draft.round(), "a ab") << "the second token is below .95, the first is not";
}

TEST(BranchPacer, KeepsToTheVerifiersBound) {
  BranchPacer planner({.threshold = 0.01});
  ScriptedDraft draft(kTwoBranches);
  PlanLimits limits = ScriptedDraft::kLimits;
  limits.max_nodes = 3;
  draft.draft(planner, limits);
  EXPECT_EQ(draft.round(), "a b ac");
  limits.max_nodes = 0;
  draft.commit("x", planner);
  draft.draft(planner, limits);
  EXPECT_EQ(draft.round(), "");
}

TEST(BranchPacer, KeepsToTheUsefulDepth) {
  BranchPacer planner({.threshold = 0.01});
  ScriptedDraft draft(kTwoBranches);
  PlanLimits limits = ScriptedDraft::kLimits;
  limits.max_depth = 1;
  draft.draft(planner, limits);
  EXPECT_EQ(draft.round(), "a b");
  EXPECT_EQ(draft.rows(), "-");
}

}  // namespace
}  // namespace outrider

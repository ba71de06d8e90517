// The examples are worked by hand from the equations. SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/branch_pacer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/common/decoding/drafting/trees/scripted_draft.h"

namespace outrider {
namespace {

// text - a(.6) - c(.5)
//      |      \ d(.2)
//      \ b(.35) - e(.9)
const ScriptedDraft::Script kTwoBranches = {
    {"", "a.6 b.35"}, {"a", "c.5 d.2"}, {"b", "e.9"}, {"ac", "f.9"}, {"be", "g.9"}};

// EdgeLLM, equations 1 and 2: the branch with the largest M C_i - T_i grows. M: nodes so far; C_i:
// a branch's confidence; T_i: its tokens; a path is written by its tokens.
//   M 2:  path [a]   2*.6-1 = .2;    path [b] 2*.35-1 = -.3    so [a] grows to [a, c]
//   M 3:  path [a,c] 3*.3-2 = -1.1;  path [b] 3*.35-1 = .05    so [b] grows to [b, e]
//   M 4:  the surest path has max(.3, .315) = .315, below the threshold of .32: verify
TEST(EdgeLlmTree, GrowsTheBranchThatIsFurthestBelowItsDueLength) {
  BranchPacer planner({.normalised = false, .threshold = 0.32});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  EXPECT_EQ(draft.rows(), "- a b");
  EXPECT_EQ(draft.round(), "a b ac be");
}

// LLMCad divides each C_i by their sum. The threshold is .3:
//   M 2:  path [a]   2*.6/.95-1 = .26;    path [b]     2*.35/.95-1 = -.26      so [a, c]
//   M 3:  path [a,c] 3*.3/.65-2 = -.62;   path [b]     3*.35/.65-1 = .62       so [b, e]
//   M 4:  path [a,c] 4*.3/.615-2 = -.05;  path [b,e]   4*.315/.615-2 = .05     so [b, e, g]
//   M 5:  path [a,c] 5*.3/.5835-2 = .57;  path [b,e,g] 5*.2835/.5835-3 = -.57  so [a, c, f]
//   M 6:  the surest path has max(.27, .2835), below .3: verify
TEST(LlmCadTree, SharesTheTokensByNormalisedConfidence) {
  BranchPacer planner({.normalised = true, .threshold = 0.3});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  EXPECT_EQ(draft.rows(), "- a b e c");
  EXPECT_EQ(draft.round(), "a b ac be beg acf");
}

// EdgeLLM on the same tree at the same threshold goes another way:
//   M 4:  path [a,c] 4*.3-2 = -.8;  path [b,e]   4*.315-2 = -.74     so [b, e, g]
//   M 5:  path [a,c] 5*.3-2 = -.5;  path [b,e,g] 5*.2835-3 = -1.58   so [a, c, f]
TEST(EdgeLlmTree, CountsConfidenceAsItIs) {
  BranchPacer planner({.normalised = false, .threshold = 0.3});
  ScriptedDraft draft(kTwoBranches);
  draft.draft(planner);
  EXPECT_EQ(draft.rows(), "- a b e c");
}

// Equation 3 after the round of the first test, whose surest path has .315.
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

TEST(BranchPacer, TheThresholdFallsByAnotherFactorOrStaysWhereThatIsCompared) {
  BranchPacer relaxed({.threshold = 0.32, .relax = 0.25}),
      fixed({.threshold = 0.32, .adapts = false});
  for (BranchPacer* planner : {&relaxed, &fixed}) {
    ScriptedDraft draft(kTwoBranches);
    draft.draft(*planner);
    draft.commit("acx", *planner);
  }
  EXPECT_DOUBLE_EQ(relaxed.threshold(), 0.08);
  EXPECT_DOUBLE_EQ(fixed.threshold(), 0.32);
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

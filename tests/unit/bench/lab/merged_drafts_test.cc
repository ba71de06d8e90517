// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/merged_drafts.h"

#include <gtest/gtest.h>

#include "tests/unit/bench/lab/scripted_logits.h"
#include "tests/unit/common/decoding/drafting/trees/scripted_draft.h"

namespace outrider {
namespace {

TEST(MergedDrafts, NameBothGuessesAndTheirDraftByTheConfidence) {
  ScriptedLogits one({{0, 5, 1, 0}, {0, 0, 7, 0}}), other({{0, 1, 4, 0}, {0, 3, 9, 0}});
  MergedDrafts merged(one, other);
  const std::vector<std::vector<double>> chances = one.chances_of(merged);
  EXPECT_NEAR(chances[0][1], 2.0 / 3, 0.01) << "the first draft's";
  EXPECT_NEAR(chances[0][2], 1.0 / 3, 0.01);
  EXPECT_NEAR(chances[1][2], 1, 1e-6) << "both guess it";
}

// The first draft writes abc, the other ad, then e; both guess a. Behind d the first draft's own
// guess, f, is on nobody's chain.
TEST(MergedChains, HaveWhatIsCommonOnceAndFollowNoDraftOffItsChain) {
  MergedChains planner(3);
  ScriptedDraft draft({{"", "a1"}, {"a", "b.67 d.33"}, {"ab", "c.67 x.33"}, {"ad", "f.67 e.33"}},
                      4);
  draft.draft(planner);
  EXPECT_EQ(draft.round(), "a ab ad abc ade");
}

TEST(MergedChains, EndWhereTheVerifierIsFull) {
  MergedChains planner(3);
  ScriptedDraft draft({{"", "a.67 b.33"}, {"a", "c1"}, {"b", "d1"}}, 4);
  PlanLimits limits = ScriptedDraft::kLimits;
  limits.max_nodes = 3;
  draft.draft(planner, limits);
  EXPECT_EQ(draft.round(), "a b ac");
}

}  // namespace
}  // namespace outrider

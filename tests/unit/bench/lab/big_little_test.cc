// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/big_little.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/bench/lab/scripted_logits.h"
#include "tests/unit/common/decoding/drafting/trees/scripted_draft.h"

namespace outrider {
namespace {

std::size_t chosen(const std::vector<double>& chances) {
  return static_cast<std::size_t>(std::ranges::max_element(chances) - chances.begin());
}

TEST(LenientTarget, LetsADraftedTokenStandThatItFindsLikelyEnough) {
  const std::vector<std::vector<float>> rows = {{4, 3, 0}, {4, 3, 0}, {4, 3, 0}};
  ScriptedLogits target(rows);
  EXPECT_NEAR(surprise_of(rows[0], 1), 1 + std::log(1 + std::exp(-1) + std::exp(-4)), 1e-6);
  LenientTarget lenient(target, 2);
  // Behind the first row stands 1, behind the second 2; behind the third nothing was drafted.
  const auto chances = target.chances_of(lenient, {0, 1, 2});
  EXPECT_EQ(chosen(chances[0]), 1u) << "1.3 nats";
  EXPECT_EQ(chosen(chances[1]), 0u) << "4.3 nats";
  EXPECT_EQ(chosen(chances[2]), 0u);
}

TEST(SureChain, EndsBeforeTheFirstTokenThatIsUnsure) {
  SureChain planner(0.5, 8);
  ScriptedDraft draft({{"", "a.9 b.1"}, {"a", "c.6 d.3"}, {"ac", "e.4 f.3"}});
  draft.draft(planner);
  EXPECT_EQ(draft.round(), "a ac");
  EXPECT_EQ(draft.rows(), "- a c");
}

TEST(SureChain, HasNoMoreThanItsMost) {
  SureChain planner(0.5, 1);
  ScriptedDraft draft({{"", "a.9"}, {"a", "c.9"}});
  draft.draft(planner);
  EXPECT_EQ(draft.round(), "a");
}

using Tokens = std::vector<TokenId>;

TEST(RougeL, IsOneForTheSameTextAndZeroWhereNothingIsShared) {
  EXPECT_EQ(rouge_l(Tokens{1, 2, 3}, Tokens{1, 2, 3}), 1);
  EXPECT_EQ(rouge_l(Tokens{1, 2}, Tokens{3}), 0);
}

// Two of five and three tokens are common in this order: 2 * 2 / 8.
TEST(RougeL, CountsTheLongestCommonSubsequence) {
  EXPECT_EQ(rouge_l(Tokens{1, 9, 2, 8, 3}, Tokens{2, 3, 1}), 0.5);
}

TEST(RougeL, OfEmptyTexts) {
  EXPECT_EQ(rouge_l(Tokens{}, Tokens{}), 1);
  EXPECT_EQ(rouge_l(Tokens{}, Tokens{1}), 0);
}

}  // namespace
}  // namespace outrider

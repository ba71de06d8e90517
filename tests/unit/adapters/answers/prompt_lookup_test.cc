// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/acceptance.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using Tokens = std::vector<TokenId>;

TEST(PromptLookup, GuessesWhatFollowedTheLastTokensBefore) {
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4, 5, 6, 1, 2, 3}, 9), (Tokens{4, 5, 6, 1, 2, 3}));
}

TEST(PromptLookup, PrefersLongerMatchesThenLaterOnes) {
  EXPECT_EQ(look_up(Tokens{7, 8, 9, 1, 8, 9, 2, 7, 8, 9}, 1), (Tokens{1}));
  EXPECT_EQ(look_up(Tokens{8, 9, 1, 8, 9, 2, 7, 8, 9}, 1), (Tokens{2}));
  EXPECT_EQ(look_up(Tokens{5, 1, 5, 2, 5}, 1), (Tokens{2}));
  EXPECT_EQ(look_up(Tokens{4, 4}, 4), (Tokens{4}));
}

TEST(PromptLookup, GuessesNothingWhereNothingStoodBefore) {
  EXPECT_EQ(look_up(Tokens{1, 2, 3}, 4), Tokens{});
  EXPECT_EQ(look_up(Tokens{1}, 4), Tokens{});
  EXPECT_EQ(look_up(Tokens{}, 4), Tokens{});
}

TEST(PromptLookup, APassTakesRightGuessesAndOneTokenMore) {
  // Nothing guesses 3; then 4 5 are right, and 9 is the target's own; 1 is not guessed.
  EXPECT_EQ(passes_by_look_up(Tokens{3, 4, 5, 6}, Tokens{3, 4, 5, 9, 1}, 4), 3u);
  // The same with one guess a pass.
  EXPECT_EQ(passes_by_look_up(Tokens{3, 4, 5, 6}, Tokens{3, 4, 5, 9, 1}, 1), 4u);
  // A guess beyond the answer's end does not count.
  EXPECT_EQ(passes_by_look_up(Tokens{3, 4, 5, 6}, Tokens{3, 4}, 4), 2u);
  EXPECT_EQ(passes_by_look_up(Tokens{1, 2}, Tokens{}, 4), 0u);
}

}  // namespace
}  // namespace outrider

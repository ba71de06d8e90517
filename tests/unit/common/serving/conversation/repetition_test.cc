// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/repetition.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(Repetition, IsCutWhereAnEightGramComesAgain) {
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 20; ++i) tokens.push_back(i);
  EXPECT_EQ(length_before_repetition(tokens), 20u);
  for (TokenId i = 5; i < 20; ++i) tokens.push_back(i);
  EXPECT_EQ(length_before_repetition(tokens), 28u);  // 5..12 occurs a second time
  EXPECT_EQ(length_before_repetition({1, 2, 3}), 3u);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/edge_client/session/session_harness.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

using Ids = std::vector<TokenId>;

// After a prompt of 3 tokens; at most 5 more were asked for.
class AnswerTest : public testing::Test {
 protected:
  LetterText text_{"cd"};
  Answer answer_{text_, 3, 8};
};

TEST_F(AnswerTest, TokensComeWithTheirTextAndTheLastIsTheTargetsOwn) {
  const Answer::Taken taken = answer_.take(Ids{0, 1, 4}, {});
  EXPECT_FALSE(taken.stopped);
  std::string text;
  std::vector<bool> drafted;
  for (const Emit::Token& token : taken.emit.tokens) {
    text += token.text;
    drafted.push_back(token.drafted);
  }
  EXPECT_EQ(text, "abe");
  EXPECT_THAT(drafted, ElementsAre(true, true, false));
  EXPECT_THAT(answer_.ids(), ElementsAre(0, 1, 4));
}

TEST_F(AnswerTest, NothingIsTakenAfterAStopString) {
  answer_.take(Ids{2}, {});
  const Answer::Taken taken = answer_.take(Ids{3, 4, 5}, {});
  EXPECT_TRUE(taken.stopped);
  EXPECT_THAT(taken.emit.tokens, SizeIs(1));
  EXPECT_THAT(answer_.ids(), ElementsAre(2, 3));
}

TEST_F(AnswerTest, EndsWithAStopTokenOnlyIfThatIsTheLast) {
  answer_.take(Ids{6}, {});
  EXPECT_EQ(answer_.natural_ending(Ids{6, 7}), Ending::kStopToken);
  EXPECT_EQ(answer_.natural_ending(Ids{7}), std::nullopt);
  answer_.take(Ids{5}, {});
  EXPECT_EQ(answer_.natural_ending(Ids{6, 7}), std::nullopt);
}

TEST_F(AnswerTest, EndsWithAsManyTokensAsWereAskedFor) {
  EXPECT_EQ(answer_.natural_ending({}), std::nullopt) << "it has not begun";
  answer_.take(Ids{0, 1, 4, 5}, {});
  EXPECT_EQ(answer_.natural_ending({}), std::nullopt);
  answer_.take(Ids{6}, {});
  EXPECT_EQ(answer_.natural_ending({}), Ending::kLength);
  EXPECT_EQ(answer_.natural_ending(Ids{6}), Ending::kStopToken) << "the nearer reason";
}

TEST_F(AnswerTest, EndsWhereTheTargetsContextIsFull) {
  answer_.limit_to(5);
  EXPECT_EQ(answer_.end_position(), 5);
  EXPECT_EQ(answer_.asked_end(), 8);
  answer_.take(Ids{0, 1}, {});
  EXPECT_EQ(answer_.natural_ending({}), Ending::kContextFull);
}

TEST_F(AnswerTest, ALongerContextDoesNotLengthenIt) {
  answer_.limit_to(5);
  answer_.limit_to(100);  // another target
  EXPECT_EQ(answer_.end_position(), 8);
}

TEST_F(AnswerTest, WhatTextWasHeldBackComesLastAndIsNoToken) {
  const std::optional<Emit> rest = answer_.finish();
  ASSERT_TRUE(rest);
  ASSERT_THAT(rest->tokens, SizeIs(1));
  EXPECT_EQ(rest->tokens[0].text, ".");
  EXPECT_EQ(rest->tokens[0].id, -1);
  EXPECT_FALSE(rest->tokens[0].drafted);
  EXPECT_TRUE(answer_.ids().empty());
}

class NothingHeldBack final : public AnswerText {
 public:
  Update push(TokenId /*token*/) override { return {}; }
  std::string finish() override { return {}; }
};

TEST(AnswerEnd, WithoutTextHeldBackNothingIsEmitted) {
  NothingHeldBack text;
  Answer answer(text, 3, 8);
  EXPECT_EQ(answer.finish(), std::nullopt);
}

}  // namespace
}  // namespace outrider

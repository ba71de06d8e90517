// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/lookup/look_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace outrider {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

std::vector<TokenId> counting(std::size_t count) {
  std::vector<TokenId> text(count);
  std::iota(text.begin(), text.end(), 0);
  return text;
}

TEST(LookUp, GuessesWhatFollowedBefore) {
  LookUp look_up(100);
  look_up.begin(std::vector<TokenId>{1, 2, 3, 4, 9, 1, 2, 3});
  const std::vector<Guess> guesses = look_up.guesses(look_up.text(), 4);
  ASSERT_THAT(guesses, SizeIs(1));
  EXPECT_EQ(guesses[0].token, 4);
  EXPECT_GT(guesses[0].confidence, 0.3f);
}

TEST(LookUp, AMatchShorterThanAskedForIsNone) {
  const std::vector<TokenId> text = {1, 2, 9}, tail = {7, 1};
  LookUp by_one(100, 1), by_two(100, 2);
  by_one.begin(text);
  by_two.begin(text);
  EXPECT_THAT(by_one.guesses(tail, 4), SizeIs(1));
  EXPECT_THAT(by_two.guesses(tail, 4), IsEmpty());
}

TEST(LookUp, WhatIsOftenWrongIsGuessedLessSurely) {
  // After 1 2 comes another token each time.
  LookUp surprised(1000), right(1000);
  for (TokenId other = 10; other < 60; ++other) {
    for (const TokenId token : {1, 2, other}) surprised.take(token);
    for (const TokenId token : {1, 2, 3}) right.take(token);
  }
  const std::vector<TokenId> tail = {1, 2};
  EXPECT_LT(surprised.guesses(tail, 1).at(0).confidence, 0.3f);
  EXPECT_GT(right.guesses(tail, 1).at(0).confidence, 0.35f) << "more than is assumed";
}

TEST(LookUp, GuessesForOnePlaceAreTogetherLessThanSure) {
  LookUp look_up(1000);
  for (int time = 0; time < 100; ++time) {
    for (const TokenId token : {1, 2, 3, 4, 1, 2, 3, 5}) look_up.take(token);
  }
  float all = 0;
  for (const Guess& guess : look_up.guesses(std::vector<TokenId>{1, 2, 3}, 4)) {
    all += guess.confidence;
  }
  EXPECT_LT(all, 1.0f);
}

TEST(LookUp, SharedTextsAreSearchedTooWhereTheyAreHandedIn) {
  MatchFinder shared(100);
  for (const TokenId token : {4, 1, 2, 7}) shared.append(token);
  LookUp look_up(100);
  const std::vector<TokenId> text = {1, 2, 3, 4, 1, 2};
  look_up.begin(text);
  EXPECT_EQ(look_up.guesses(text, 1).at(0).token, 3);
  EXPECT_EQ(look_up.guesses(text, 1, &shared).at(0).token, 7) << "that match is longer";
  EXPECT_THAT(look_up.guesses(text, 4, &shared), SizeIs(2));
}

TEST(LookUp, WhatSharedTextsAreWorthIsLearnedToo) {
  MatchFinder shared(200);
  for (TokenId token = 0; token < 100; ++token) shared.append(token);
  const std::vector<TokenId> text = counting(80);
  LookUp fresh(200), learned(200);
  fresh.begin(text);
  learned.begin(std::span(text).first(2));
  for (const TokenId token : std::span(text).subspan(2)) learned.take(token, &shared);
  EXPECT_GT(learned.guesses(text, 1, &shared).at(0).confidence,
            fresh.guesses(text, 1, &shared).at(0).confidence);
}

TEST(LookUp, OfALongTextTheWholeIsFoundIn) {
  std::vector<TokenId> text = counting(10'000);
  text.insert(text.end(), {5, 6});
  LookUp look_up(20'000, 2);
  look_up.begin(text);
  EXPECT_EQ(look_up.guesses(look_up.text(), 1).at(0).token, 7);
}

TEST(LookUp, AnotherTextRemembersTheOneBefore) {
  LookUp look_up(100);
  look_up.begin(std::vector<TokenId>{1, 2, 3});
  look_up.begin(std::vector<TokenId>{8, 1, 2});
  EXPECT_EQ(look_up.guesses(look_up.text(), 1).at(0).token, 3);
  look_up.cut(1);
  EXPECT_THAT(look_up.text(), SizeIs(1));
}

}  // namespace
}  // namespace outrider

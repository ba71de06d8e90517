// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/lookup/match_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace outrider {
namespace {

using testing::IsEmpty;

MatchFinder finder_of(const std::vector<std::vector<TokenId>>& texts, std::size_t most = 1000) {
  MatchFinder finder(most);
  for (const std::vector<TokenId>& text : texts) {
    for (const TokenId token : text) finder.append(token);
    finder.end_text();
  }
  return finder;
}

TEST(MatchFinderTest, TheLongestMatchComesFirst) {
  const MatchFinder finder = finder_of({{1, 2, 3, 7}, {9, 2, 3, 8}});
  const std::vector<TokenId> tail = {5, 1, 2, 3};
  const auto found = finder.find(tail, 4);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].next, 7);
  EXPECT_EQ(found[0].length, 3u);
  EXPECT_EQ(found[1].next, 8);
  EXPECT_EQ(found[1].length, 2u);
  EXPECT_EQ(finder.find(tail, 1).size(), 1u);
}

TEST(MatchFinderTest, OfEqualMatchesTheLatestComesFirstAndEachTokenOnce) {
  const MatchFinder finder = finder_of({{1, 2, 7, 1, 2, 8, 1, 2, 7, 3}});
  const auto found = finder.find(std::vector<TokenId>{1, 2}, 4);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].next, 7);
  EXPECT_EQ(found[1].next, 8);
}

TEST(MatchFinderTest, ASingleTokenMatchesOnlyWhereNoLongerMatchIs) {
  const MatchFinder finder = finder_of({{1, 2, 3, 4, 2, 5}});
  const auto found = finder.find(std::vector<TokenId>{9, 2}, 4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].next, 5);
  EXPECT_EQ(found[0].length, 1u);
  EXPECT_EQ(finder.find(std::vector<TokenId>{1, 2}, 4)[0].next, 3);
}

TEST(MatchFinderTest, NothingFollowsTheEndOfATextAndNoMatchSpansABorder) {
  const MatchFinder finder = finder_of({{1, 2}, {3, 4}});
  EXPECT_THAT(finder.find(std::vector<TokenId>{1, 2}, 4), IsEmpty());
  EXPECT_THAT(finder.find(std::vector<TokenId>{9}, 4), IsEmpty());
  EXPECT_THAT(finder.find({}, 4), IsEmpty());
  const auto found = finder.find(std::vector<TokenId>{2, 3}, 4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].length, 1u) << "2 3 were never in one text";
}

TEST(MatchFinderTest, TheOlderHalfGoesWhenThereAreTooManyTokens) {
  MatchFinder finder(8);
  for (const TokenId token : {1, 2, 3, 4, 5, 6, 7, 8, 9}) finder.append(token);
  EXPECT_EQ(finder.size(), 5u);
  EXPECT_THAT(finder.find(std::vector<TokenId>{1, 2}, 4), IsEmpty());
  EXPECT_EQ(finder.find(std::vector<TokenId>{6, 7}, 4)[0].next, 8);
}

TEST(MatchFinderTest, MatchesInOtherTextsAreHandedIn) {
  const MatchFinder own = finder_of({{1, 2, 7}}), other = finder_of({{5, 1, 2, 7}, {1, 2, 8}});
  const std::vector<TokenId> longer = {5, 1, 2}, equal = {1, 2};
  auto found = other.find(longer, 4, own.find(longer, 4));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].next, 7);
  EXPECT_EQ(found[0].length, 3u) << "the longer of both";
  EXPECT_EQ(found[1].next, 8);
  found = other.find(equal, 1, own.find(equal, 1));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].next, 7) << "of equal ones they come first";
  EXPECT_EQ(other.find(equal, 1)[0].next, 8);
}

TEST(MatchFinderTest, FindsTheSameAfterItsTableHasGrown) {
  MatchFinder finder(1 << 14);
  for (TokenId token = 0; token < 5000; ++token) finder.append(token);
  for (const TokenId at : {1, 500, 1023, 1024, 2047, 2048, 4998}) {
    const auto found = finder.find(std::vector<TokenId>{at - 1, at}, 4);
    ASSERT_EQ(found.size(), 1u) << at;
    EXPECT_EQ(found[0].next, at + 1);
  }
}

// Against a search of every place.
TEST(MatchFinderTest, FindsWhatASearchOfEveryPlaceFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    MatchFinder finder(4096);
    std::vector<TokenId> text;
    for (int i = 0; i < 60; ++i) {
      text.push_back(static_cast<TokenId>(random() % 5));
      finder.append(text.back());
      std::map<TokenId, std::size_t> longest;
      for (std::size_t place = 0; place + 1 < text.size(); ++place) {
        std::size_t length = 0;
        while (length <= place && length < MatchFinder::kMaxLength &&
               text[place - length] == text[text.size() - 1 - length]) {
          ++length;
        }
        if (length >= 2) longest[text[place + 1]] = std::max(longest[text[place + 1]], length);
      }
      if (longest.empty()) continue;
      const auto tail = std::span(text).last(std::min(text.size(), MatchFinder::kMaxLength));
      for (const MatchFinder::Match& match : finder.find(tail, 99)) {
        EXPECT_EQ(match.length, longest[match.next]);
      }
      EXPECT_EQ(finder.find(tail, 99).size(), longest.size());
    }
  }
}

}  // namespace
}  // namespace outrider

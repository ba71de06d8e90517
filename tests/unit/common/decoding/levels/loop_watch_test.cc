// Loops of an answer's tokens, and texts that only look like some.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_track.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

namespace outrider {
namespace {

// The tokens up to the one with which the text loops; nothing: it does not.
std::optional<std::size_t> noticed_at(const std::vector<TokenId>& text) {
  LoopWatch watch;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (watch.push(text[i])) return i + 1;
  }
  return std::nullopt;
}

std::vector<TokenId> loop_of(std::size_t period, std::size_t tokens, TokenId first = 100) {
  std::vector<TokenId> text;
  for (std::size_t i = 0; i < tokens; ++i) {
    text.push_back(first + static_cast<TokenId>(i % period));
  }
  return text;
}

std::vector<TokenId> joined(std::vector<TokenId> text, const std::vector<TokenId>& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

TEST(LoopWatch, ALoopIsNoticedWithinSixteenTokensOrTwoRounds) {
  const std::vector<TokenId> before = loop_of(200, 200, 1000);
  for (std::size_t period = 1; period <= LoopWatch::kPeriods; ++period) {
    const std::size_t expected = std::max(LoopWatch::kLoop, 2 * period);
    EXPECT_EQ(noticed_at(loop_of(period, 200)), expected) << period;
    EXPECT_EQ(noticed_at(joined(before, loop_of(period, 200))), 200 + expected) << period;
    EXPECT_TRUE(expected <= 24 || period > 12);
  }
  EXPECT_EQ(noticed_at(loop_of(LoopWatch::kPeriods + 1, 1000)), std::nullopt) << "not looked for";
}

TEST(LoopWatch, ALoopThatGoesOnIsNoticedAgainAndOneThatWasLeftIsNot) {
  LoopWatch watch;
  std::vector<std::size_t> noticed;
  for (std::size_t i = 0; i < 31; ++i) {
    if (watch.push(static_cast<TokenId>(i % 5))) noticed.push_back(i + 1);
  }
  EXPECT_EQ(noticed, (std::vector<std::size_t>{16, 20, 24, 28}));
  for (TokenId token = 100; token < 300; ++token) EXPECT_FALSE(watch.push(token));
  for (TokenId i = 0; i < 15; ++i) EXPECT_FALSE(watch.push(i % 5)) << "a loop of its own";
  EXPECT_TRUE(watch.push(0));
}

// Entries that are alike except for one value, as in lists, JSON and scenes of a robot.
TEST(LoopWatch, ListsWhoseValuesDifferAreNoLoops) {
  for (std::size_t entry = 2; entry <= 100; ++entry) {
    std::vector<TokenId> text;
    for (TokenId value = 0; value < 50; ++value) {
      text = joined(std::move(text), loop_of(entry - 1, entry - 1));
      text.push_back(1000 + value);
    }
    EXPECT_EQ(noticed_at(text), std::nullopt) << "entries of " << entry << " tokens";
  }
  EXPECT_EQ(noticed_at(loop_of(500, 500)), std::nullopt);
}

TEST(LoopWatch, ASentenceThatIsSaidAgainLaterIsNoLoop) {
  const std::vector<TokenId> sentence = loop_of(20, 20);
  std::vector<TokenId> text;
  for (TokenId i = 0; i < 20; ++i) {
    text = joined(std::move(text), joined(sentence, loop_of(10, 10, 1000 + 10 * i)));
  }
  EXPECT_EQ(noticed_at(text), std::nullopt);
}

// By its definition, at each token of texts that loop and that do not.
TEST(LoopWatch, IsWhatItsHeaderSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const TokenId vocabulary = 1 + static_cast<TokenId>(random() % 4);
    std::vector<TokenId> text;
    while (text.size() < 150) {
      const std::size_t period = 1 + random() % 20;
      const bool loops = text.size() > period && random() % 8 == 0;
      const std::size_t count = 1 + random() % 24;
      for (std::size_t i = 0; i < count; ++i) {
        text.push_back(loops ? text[text.size() - period]
                             : static_cast<TokenId>(random() % static_cast<unsigned>(vocabulary)));
      }
    }
    const auto loops_at = [&](std::size_t end) {
      for (std::size_t period = 1; period <= LoopWatch::kPeriods; ++period) {
        const std::size_t tokens = std::max(LoopWatch::kLoop, 2 * period);
        bool same = tokens <= end;
        for (std::size_t i = end - (same ? tokens : end) + period; same && i < end; ++i) {
          same = text[i] == text[i - period];
        }
        if (same) return true;
      }
      return false;
    };
    std::size_t first = 1;
    while (first <= text.size() && !loops_at(first)) ++first;
    EXPECT_EQ(noticed_at(text).value_or(text.size() + 1), first) << round;
  }
}

}  // namespace
}  // namespace outrider

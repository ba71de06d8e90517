// Which level goes on with an answer, from its tokens.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_track.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace outrider {
namespace {

const std::vector<LevelProfile> kFourLevels{{.name = "100", .tpot_ms = 20},
                                            {.name = "80", .tpot_ms = 16, .quality = 0.7},
                                            {.name = "60", .tpot_ms = 12, .quality = 0.9},
                                            {.name = "40", .tpot_ms = 8, .quality = 0.8}};

LevelTrack track_of(const LevelWish& wish) {
  const Result<LevelChoice> choice =
      choose_level(kFourLevels, wish, {.prompt_tokens = 1, .max_tokens = 100}, std::nullopt);
  EXPECT_TRUE(choice.ok()) << choice.status().to_string();
  return {choice.ok() ? *choice : LevelChoice(), kFourLevels};
}

using Switches = std::vector<std::pair<std::int64_t, std::size_t>>;

// A loop of five tokens.
Switches switches_in_a_loop(LevelTrack& track, std::int64_t tokens) {
  for (TokenId i = 0; i < tokens; ++i) {
    if (const auto level = track.push(i % 5)) track.go_on_with(*level);
  }
  Switches found;
  for (const LevelSwitch& one : track.switches()) found.emplace_back(one.from_token, one.level);
  return found;
}

TEST(LevelTrack, ALoopGoesOnWithTheNextLargerLevelThatIsGoodEnough) {
  LevelTrack all = track_of({.slo = {.time_ms = 1, .min_quality = 0.1}});
  EXPECT_EQ(all.level(), 3u);
  EXPECT_EQ(switches_in_a_loop(all, 15), Switches());
  EXPECT_EQ(all.push(0), 2u);
  LevelTrack again = track_of({.slo = {.time_ms = 1, .min_quality = 0.1}});
  EXPECT_EQ(switches_in_a_loop(again, 24), (Switches{{16, 2}, {20, 1}, {24, 0}}));
  EXPECT_EQ(again.level(), 0u);
  LevelTrack good = track_of({.slo = {.tpot_ms = 1, .min_quality = 0.8}});
  EXPECT_EQ(switches_in_a_loop(good, 200), (Switches{{16, 2}, {20, 0}}))
      << "80 is not good enough, and above the full model there is none";
}

TEST(LevelTrack, ALevelThatWasNamedStays) {
  LevelTrack named = track_of({.level = "40"});
  EXPECT_EQ(switches_in_a_loop(named, 200), Switches());
  LevelTrack in_time = track_of({.level = "40", .slo = {.time_ms = 1}});
  EXPECT_EQ(switches_in_a_loop(in_time, 200), Switches());
  LevelTrack course = track_of({.level = "60,7:40,12:80"});
  EXPECT_EQ(switches_in_a_loop(course, 200), (Switches{{7, 3}, {12, 1}}));
  EXPECT_FALSE(track_of({}).choice().may_change());
}

// Behind a switch that keeps the time, the larger level is not fallen below again by a loop.
TEST(LevelTrack, WhatFellToASmallerLevelForItsTimeLeavesLoopsFromThere) {
  LevelTrack track = track_of({.slo = {.time_ms = 1e6, .min_quality = 0.1}});
  EXPECT_EQ(track.level(), 0u);
  EXPECT_EQ(switches_in_a_loop(track, 10), Switches());
  track.go_on_with(3);
  EXPECT_EQ(track.push(0), std::nullopt);
  for (TokenId i = 1; i < 5; ++i) EXPECT_EQ(track.push(i), std::nullopt);
  EXPECT_EQ(track.push(0), 2u) << "the tokens of the level before count";
  LevelTrack ending = track_of({.slo = {.time_ms = 1, .min_quality = 0.1}});
  ending.stay();
  EXPECT_EQ(switches_in_a_loop(ending, 100), Switches());
}

}  // namespace
}  // namespace outrider

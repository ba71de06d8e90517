// The experience with a draft model beside the target.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/draft_experience.h"

#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

constexpr float kHardly = 0, kLikely = 0.9f;

// So many chains of one step each.
void add(DraftGains& gains, int chains, bool brought, float covered = kHardly) {
  for (int i = 0; i < chains; ++i) gains.add(std::vector<ChainStep>{{covered, brought}});
}

TEST(DraftGainsTest, AStepIsTakenToBringMuchBeforeAnyWasRun) {
  const DraftGains gains(200), session(33);
  EXPECT_GT(gains.chance(0, kHardly), 0.5);
  EXPECT_EQ(session.chance(0, kHardly, gains), gains.chance(0, kHardly));
  EXPECT_LT(gains.chance(0, kLikely), 0.2) << "look-up has guessed there";
}

TEST(DraftGainsTest, WhatStoodDecides) {
  DraftGains gains(200);
  add(gains, 50, false);
  EXPECT_LT(gains.chance(0, kHardly), 0.06);
  EXPECT_GT(gains.chance(0, 0.4f), 0.3) << "where look-up had a guess nobody knows yet";
  add(gains, 200, true);
  EXPECT_GT(gains.chance(0, kHardly), 0.7);
}

TEST(DraftGainsTest, ASessionGoesByItsOwnAndBeforeByAll) {
  DraftGains gains(200), good(33), bad(33);
  add(gains, 100, true);
  add(bad, 40, false);
  EXPECT_LT(bad.chance(0, kHardly, gains), 0.3);
  EXPECT_GT(good.chance(0, kHardly, gains), 0.9);
}

TEST(DraftGainsTest, AnUnknownDepthIsAsTheOneBefore) {
  DraftGains gains(200);
  add(gains, 100, true);
  EXPECT_GT(gains.chance(3, kHardly), 0.9);
  EXPECT_GT(gains.chance(100, kHardly), 0.9);
  for (int i = 0; i < 30; ++i) gains.add(std::vector<ChainStep>{{0, true}, {0, false}});
  EXPECT_GT(gains.chance(0, kHardly), 0.9);
  EXPECT_LT(gains.chance(1, kHardly), 0.2);
  EXPECT_LT(gains.chance(3, kHardly), 0.2);
}

TEST(DraftGainsTest, WhatIsNotTriedAnyMoreIsForgotten) {
  DraftGains gains(33);
  for (int i = 0; i < 30; ++i) gains.add(std::vector<ChainStep>{{0, true}, {0, false}});
  const double before = gains.chance(1, kHardly);
  add(gains, 200, true);
  EXPECT_LT(before, 0.2);
  EXPECT_GT(gains.chance(1, kHardly), 0.8) << "it is worth another try";
}

}  // namespace
}  // namespace outrider

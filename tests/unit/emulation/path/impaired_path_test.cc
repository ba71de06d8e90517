// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/impaired_path.h"

#include <gtest/gtest.h>

#include <chrono>
#include <tuple>
#include <vector>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<Fate> fates_of(const PathSettings& settings, std::uint64_t seed, int packets,
                           double spacing_ms) {
  ImpairedPath path(settings, seed);
  std::vector<Fate> fates;
  for (int i = 0; i < packets; ++i) fates.push_back(path.send(100, from_ms(spacing_ms * i)));
  return fates;
}

PathSettings everything() {
  PathSettings settings;
  settings.delay = milliseconds(30);
  settings.jitter = {.law = JitterSettings::Law::kNormal, .deviation = milliseconds(10)};
  settings.bit_per_s = 1e6;
  settings.queue_bytes = 2000;
  settings.loss.share = 0.1;
  settings.duplicate = 0.1;
  settings.reorder = 0.1;
  settings.reorder_by = milliseconds(25);
  return settings;
}

TEST(ImpairedPathTest, ThePlainPathOnlyDelays) {
  PathSettings settings;
  settings.delay = milliseconds(42);
  ImpairedPath path(settings, 0);
  const Fate fate = path.send(1500, seconds(1));
  EXPECT_TRUE(fate.arrives());
  EXPECT_EQ(fate.due, milliseconds(1042));
  EXPECT_FALSE(fate.copy_due);
}

TEST(ImpairedPathTest, TheSameSeedGivesTheSameFates) {
  const auto facts = [](std::uint64_t seed) {
    std::vector<std::tuple<Fate::Kind, Duration, std::optional<Duration>>> all;
    for (const Fate& fate : fates_of(everything(), seed, 500, 1)) {
      all.emplace_back(fate.kind, fate.due, fate.copy_due);
    }
    return all;
  };
  EXPECT_EQ(facts(1), facts(1));
  EXPECT_NE(facts(1), facts(2));
}

TEST(ImpairedPathTest, JitterAloneReordersNothing) {
  PathSettings settings = everything();
  settings.reorder = 0;
  Duration last{0};
  for (const Fate& fate : fates_of(settings, 4, 2000, 1)) {
    if (!fate.arrives()) continue;
    EXPECT_GE(fate.due, last);
    last = fate.due;
  }
}

TEST(ImpairedPathTest, WhatIsReorderedComesLaterAndHoldsNothingUp) {
  PathSettings settings;
  settings.delay = milliseconds(10);
  settings.reorder = 0.2;
  settings.reorder_by = milliseconds(7);
  int reordered = 0;
  const std::vector<Fate> fates = fates_of(settings, 1, 1000, 1);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const Duration straight = milliseconds(i) + milliseconds(10);
    const bool late = fates[i].due == straight + milliseconds(7);
    EXPECT_TRUE(late || fates[i].due == straight);
    reordered += late ? 1 : 0;
  }
  EXPECT_NEAR(reordered, 200, 50);
}

TEST(ImpairedPathTest, DuplicatesComeTwiceAndAreCounted) {
  PathSettings settings;
  settings.duplicate = 0.3;
  ImpairedPath path(settings, 1);
  int copies = 0;
  for (int i = 0; i < 1000; ++i) {
    const Fate fate = path.send(100, milliseconds(i));
    EXPECT_TRUE(fate.arrives());
    copies += fate.copy_due ? 1 : 0;
  }
  EXPECT_NEAR(copies, 300, 60);
  EXPECT_EQ(path.counts().duplicated, static_cast<std::uint64_t>(copies));
}

TEST(ImpairedPathTest, TheQueueIsBoundedAndALostPacketHasUsedTheRate) {
  PathSettings settings;
  settings.bit_per_s = 8e5;  // 100 bytes a millisecond
  settings.queue_bytes = 300;
  settings.loss.share = 1;
  ImpairedPath path(settings, 0);
  for (int i = 1; i <= 3; ++i) {
    const Fate fate = path.send(100, Duration::zero());
    EXPECT_EQ(fate.kind, Fate::Kind::kLost);
    EXPECT_EQ(fate.due, milliseconds(i));
  }
  EXPECT_EQ(path.send(100, Duration::zero()).kind, Fate::Kind::kQueueFull);
  EXPECT_EQ(path.counts().lost, 3u);
  EXPECT_EQ(path.counts().queue_full, 1u);
}

TEST(ImpairedPathTest, ABlackoutTakesWhatPassesInItAndNothingElse) {
  PathSettings settings;
  settings.delay = seconds(1);
  settings.loss.windows = {{.first = milliseconds(100), .length = milliseconds(50)}};
  const std::vector<Fate> fates = fates_of(settings, 0, 20, 10);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(fates[static_cast<std::size_t>(i)].arrives(), i < 10 || i >= 15) << i;
  }
}

TEST(ImpairedPathTest, FromItsSilenceOnNothingArrives) {
  PathSettings settings;
  settings.silent_from = milliseconds(100);
  const std::vector<Fate> fates = fates_of(settings, 0, 20, 10);
  EXPECT_TRUE(fates[9].arrives());
  EXPECT_EQ(fates[10].kind, Fate::Kind::kSilent);
  EXPECT_EQ(fates[19].kind, Fate::Kind::kSilent);
}

}  // namespace
}  // namespace outrider

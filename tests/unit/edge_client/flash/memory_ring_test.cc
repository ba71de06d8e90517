// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/memory_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace outrider {
namespace {

TEST(MemoryRingTest, PlacesPiecesOneBehindTheOtherAndRoundAgain) {
  MemoryRing ring(100);
  EXPECT_EQ(ring.take(40), 0u);
  EXPECT_EQ(ring.take(40), 40u);
  EXPECT_EQ(ring.take(40), std::nullopt);  // 20 are left at the end
  ring.give_back();
  EXPECT_EQ(ring.take(40), 0u);
  EXPECT_EQ(ring.take(1), std::nullopt);  // 40..80 is taken, 80..100 was left behind
  ring.give_back();
  EXPECT_EQ(ring.take(60), 40u);
  EXPECT_EQ(ring.take(1), std::nullopt);
}

TEST(MemoryRingTest, AWholeRingIsOnePiece) {
  MemoryRing ring(64);
  EXPECT_EQ(ring.take(65), std::nullopt);
  EXPECT_EQ(ring.take(64), 0u);
  EXPECT_EQ(ring.take(1), std::nullopt);
  ring.give_back();
  EXPECT_EQ(ring.take(64), 0u);
}

TEST(MemoryRingTest, PiecesNeverMeet) {
  std::mt19937 random(7);
  MemoryRing ring(1000);
  std::deque<std::pair<std::size_t, std::size_t>> pieces;
  int taken = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % 400;
    if (random() % 3 != 0) {
      const auto at = ring.take(bytes);
      ++(at ? taken : refused);
      if (!at) continue;
      ASSERT_LE(*at + bytes, 1000u);
      for (const auto& [begin, end] : pieces) ASSERT_TRUE(*at >= end || *at + bytes <= begin);
      pieces.emplace_back(*at, *at + bytes);
    } else if (!pieces.empty()) {
      ring.give_back();
      pieces.pop_front();
    }
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace outrider

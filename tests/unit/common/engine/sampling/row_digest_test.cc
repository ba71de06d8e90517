// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/row_digest.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace outrider {
namespace {

std::vector<float> example_row(std::size_t width) {
  std::vector<float> row;
  for (std::size_t i = 0; i < width; ++i) {
    row.push_back(12 * std::sin(static_cast<float>(i * i % 1000)));
  }
  return row;
}

// The value is part of the protocol: records of today are audited tomorrow.
TEST(RowDigest, IsTheSameEverywhere) {
  EXPECT_EQ(row_digest(std::vector<float>{0.0f, 1.0f, -2.5f}), 0x87282f232e29708cu);
}

TEST(RowDigest, EveryBitOfEveryEntryCounts) {
  const std::vector<float> row = example_row(257);
  std::set<std::uint64_t> seen = {row_digest(row)};
  for (std::size_t i = 0; i < row.size(); i += 16) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> changed = row;
      changed[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(row[i]) ^ (1u << bit));
      EXPECT_TRUE(seen.insert(row_digest(changed)).second) << "entry " << i << ", bit " << bit;
    }
  }
}

TEST(RowDigest, TheOrderAndTheNumberOfEntriesCount) {
  EXPECT_NE(row_digest(std::vector<float>{1, 2}), row_digest(std::vector<float>{2, 1}));
  EXPECT_NE(row_digest(std::vector<float>{1, 0}), row_digest(std::vector<float>{1}));
  EXPECT_NE(row_digest(std::vector<float>{0.0f}), row_digest(std::vector<float>{-0.0f}));
}

TEST(RowDigest, EveryNanIsTheSame) {
  const float quiet = std::numeric_limits<float>::quiet_NaN();
  const auto other = std::bit_cast<float>(0xffc12345u);
  EXPECT_EQ(row_digest(std::vector<float>{1, quiet}), row_digest(std::vector<float>{1, other}));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_NE(row_digest(std::vector<float>{1, infinity}), row_digest(std::vector<float>{1, quiet}));
}

TEST(RowDigest, StandsAtPositionsThatSixteenDivides) {
  for (Position begin = 0; begin < 40; ++begin) {
    Position count = 0;
    for (Position end = begin; end < 80; ++end) {
      EXPECT_EQ(digests_between(begin, end), count) << begin << " " << end;
      count += has_digest(end) ? 1 : 0;
    }
  }
}

}  // namespace
}  // namespace outrider

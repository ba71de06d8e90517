// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/watched_rows.h"

#include <gtest/gtest.h>

#include <numeric>

namespace outrider {
namespace {

// Rows 10 to 14 of a pass: three values each, and two logits of a head.
class WatchedRowsTest : public ::testing::Test {
 protected:
  WatchedRowsTest() {
    std::iota(values_.begin(), values_.end(), 0.0f);
    std::iota(logits_.begin(), logits_.end(), 100.0f);
  }

  static std::vector<float> read(const float* from, std::size_t count) {
    return {from, from + count};
  }

  std::vector<float> values_ = std::vector<float>(15), logits_ = std::vector<float>(10);
  HiddenRows rows_{.layer = 1,
                   .first = 10,
                   .count = 5,
                   .width = 3,
                   .values = values_.data(),
                   .head_logits = logits_.data(),
                   .num_head_logits = 2};
  WatchedRows watched_;
};

TEST_F(WatchedRowsTest, SideBySideArePointedTo) {
  for (const std::size_t row : {3u, 11u, 12u, 20u}) watched_.add(row);
  const HiddenRows some = watched_.of(rows_);
  EXPECT_EQ(some.first, 1u);
  EXPECT_EQ(some.count, 2u);
  EXPECT_EQ(some.values, values_.data() + 3);
  EXPECT_EQ(some.head_logits, logits_.data() + 2);
}

TEST_F(WatchedRowsTest, ApartAreCopiedWithTheirLogits) {
  for (const std::size_t row : {10u, 14u}) watched_.add(row);
  const HiddenRows some = watched_.of(rows_);
  EXPECT_EQ(read(some.values, 6), (std::vector<float>{0, 1, 2, 12, 13, 14}));
  EXPECT_EQ(read(some.head_logits, 4), (std::vector<float>{100, 101, 108, 109}));
}

TEST_F(WatchedRowsTest, WithoutLogitsThereAreNone) {
  for (const std::size_t row : {10u, 14u}) watched_.add(row);
  rows_.head_logits = nullptr;
  EXPECT_EQ(watched_.of(rows_).head_logits, nullptr);
}

TEST_F(WatchedRowsTest, NoneOfAPartAreNone) {
  watched_.add(20);
  EXPECT_EQ(watched_.of(rows_).count, 0u);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/costs/pass_costs.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(PassCostBookTest, NothingIsKnownAtFirst) {
  EXPECT_TRUE(PassCostBook().costs().points.empty());
  EXPECT_EQ(PassCostBook().costs().exits_percent, 0u);
}

TEST(PassCostBookTest, EachNumberOfRowsHasItsTime) {
  PassCostBook book;
  book.add(1, false, from_ms(20));
  book.add(5, false, from_ms(30));
  book.add(10, false, from_ms(40));
  const PassCosts costs = book.costs();
  ASSERT_EQ(costs.points.size(), 3u);
  EXPECT_EQ(costs.points[0].rows, 1u);
  EXPECT_NEAR(to_ms(costs.points[1].time), 30, 1e-6);
  EXPECT_EQ(costs.points[2].rows, 10u) << "of a bucket the rows that were seen";
}

TEST(PassCostBookTest, NewerPassesCountMore) {
  PassCostBook book;
  for (int i = 0; i < 100; ++i) book.add(1, false, from_ms(20));
  for (int i = 0; i < 60; ++i) book.add(1, false, from_ms(40));
  EXPECT_GT(to_ms(book.costs().points[0].time), 38);
}

TEST(PassCostBookTest, WhatExitsAddIsTakenWhereBothAreKnown) {
  PassCostBook book;
  book.add(1, false, from_ms(20));
  book.add(5, true, from_ms(33));
  EXPECT_EQ(book.costs().exits_percent, 0u) << "of other rows";
  EXPECT_EQ(book.costs().points.size(), 2u);
  book.add(5, false, from_ms(30));
  EXPECT_EQ(book.costs().exits_percent, 10u);
  EXPECT_NEAR(to_ms(book.costs().points[1].time), 30, 1e-6) << "without them";
}

TEST(PassCostBookTest, APassThatWasHeldUpDoesNotMakeItsRowsExpensive) {
  PassCostBook book;
  book.add(60, false, from_ms(21));
  book.add(1, false, from_ms(20));
  book.add(4, false, from_ms(700));
  EXPECT_NEAR(to_ms(book.costs().points[1].time), 42, 1e-6);
  book.add(8, false, from_ms(40));
  EXPECT_NEAR(to_ms(book.costs().points[2].time), 40, 1e-6) << "that may be what rows take";
  PassCostBook other;
  other.add(2, false, from_ms(20));
  other.add(8, false, from_ms(700));
  EXPECT_NEAR(to_ms(other.costs().points[1].time), 160, 1e-6) << "four passes of two, twice";
  other.add(1, false, from_ms(700));
  EXPECT_NEAR(to_ms(other.costs().points[0].time), 40, 1e-6);
}

TEST(PassCostBookTest, PrefillsAndNothingAreLeftOut) {
  PassCostBook book;
  book.add(0, false, from_ms(1));
  book.add(513, false, from_ms(500));
  book.add(3, false, Duration{0});
  EXPECT_TRUE(book.costs().points.empty());
}

}  // namespace
}  // namespace outrider

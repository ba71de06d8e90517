// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/tree/id_ledger.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(IdLedger, NumbersFromOneAndRemembersEachState) {
  IdLedger ids;
  EXPECT_EQ(ids.add(IdState::living(7)), 1u);
  EXPECT_EQ(ids.add(IdState::dead()), 2u);
  EXPECT_EQ(ids.add(IdState::committed(40)), 3u);
  EXPECT_EQ(ids.state(1), IdState::living(7));
  EXPECT_EQ(ids.state(2), IdState::dead());
  EXPECT_EQ(ids.state(3), IdState::committed(40));
}

TEST(IdLedger, AChainOfAnyLengthIsOneRun) {
  IdLedger ids;
  for (Position at = 0; at < 100'000; ++at) ids.add(IdState::committed(at));
  EXPECT_EQ(ids.runs(), 1u);
  EXPECT_EQ(ids.state(77'001), IdState::committed(77'000));
}

TEST(IdLedger, DeadIdsCostNothing) {
  IdLedger ids;
  ids.add(IdState::committed(0));
  for (int i = 0; i < 100'000; ++i) ids.add(IdState::dead());
  ids.add(IdState::committed(1));
  EXPECT_EQ(ids.runs(), 2u);
  EXPECT_EQ(ids.state(50'000), IdState::dead());
  EXPECT_EQ(ids.state(100'002), IdState::committed(1));
}

TEST(IdLedger, RunsJoinWhenTheIdBetweenThemIsCommittedLast) {
  IdLedger ids;
  ids.add(IdState::committed(10));
  ids.add(IdState::living(0));
  ids.add(IdState::committed(12));
  EXPECT_EQ(ids.runs(), 2u);
  ids.settle([](NodeIndex) { return IdState::committed(11); });
  EXPECT_EQ(ids.runs(), 1u);
  EXPECT_EQ(ids.state(2), IdState::committed(11));
  EXPECT_EQ(ids.state(3), IdState::committed(12));
  EXPECT_TRUE(ids.living().empty());
}

TEST(IdLedger, ARunGrowsDownwardsToo) {
  IdLedger ids;
  ids.add(IdState::living(0));
  ids.add(IdState::committed(6));
  ids.settle([](NodeIndex) { return IdState::committed(5); });
  EXPECT_EQ(ids.runs(), 1u);
  EXPECT_EQ(ids.state(1), IdState::committed(5));
}

TEST(IdLedger, AliasesOfACommittedNodeAllTellItsPosition) {
  IdLedger ids;
  ids.add(IdState::living(3));
  ids.add(IdState::living(3));
  ids.add(IdState::living(4));
  ids.settle(
      [](NodeIndex node) { return node == 3 ? IdState::committed(9) : IdState::living(node); });
  EXPECT_EQ(ids.state(1), IdState::committed(9));
  EXPECT_EQ(ids.state(2), IdState::committed(9));
  EXPECT_EQ(ids.state(3), IdState::living(4));
  EXPECT_EQ(ids.living().size(), 1u);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/model/kv_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;

std::vector<Slot> path_of(const KvSlots& slots, Slot slot) {
  std::vector<Slot> path;
  slots.path(slot, path);
  return path;
}

TEST(KvSlots, ATreeGrowsUnderTheCommittedText) {
  KvSlots slots(8);
  const Slot first = *slots.append(kRootSlot);
  slots.commit(first);
  const Slot a = *slots.append(kRootSlot);
  const Slot b = *slots.append(a);
  const Slot c = *slots.append(kRootSlot);
  EXPECT_EQ(slots.position(b), 2);
  EXPECT_THAT(path_of(slots, b), ElementsAre(first, a, b));
  EXPECT_THAT(path_of(slots, c), ElementsAre(first, c));
}

TEST(KvSlots, CommitKeepsThePathAndWhatHangsBelowItAndFreesTheRest) {
  KvSlots slots(8);
  const Slot a = *slots.append(kRootSlot);
  const Slot b = *slots.append(a);
  const Slot below = *slots.append(b);
  const Slot loser = *slots.append(a);
  *slots.append(loser);
  slots.commit(b);
  EXPECT_EQ(slots.committed(), 2);
  EXPECT_EQ(slots.in_use(), 3);
  EXPECT_THAT(path_of(slots, below), ElementsAre(a, b, below));
  EXPECT_THAT(path_of(slots, *slots.append(below)), testing::SizeIs(4));
}

TEST(KvSlots, ReleaseFreesASubtreeOnly) {
  KvSlots slots(8);
  const Slot a = *slots.append(kRootSlot);
  const Slot b = *slots.append(a);
  *slots.append(b);
  slots.release(b);
  EXPECT_EQ(slots.in_use(), 1);
  EXPECT_EQ(slots.position(a), 0);
}

TEST(KvSlots, TruncateForgetsTheTail) {
  KvSlots slots(4);
  for (int i = 0; i < 3; ++i) slots.commit(*slots.append(kRootSlot));
  *slots.append(kRootSlot);
  slots.truncate(1);
  EXPECT_EQ(slots.committed(), 1);
  EXPECT_EQ(slots.in_use(), 1);
  EXPECT_EQ(slots.position(*slots.append(kRootSlot)), 1);
}

TEST(KvSlots, AFullCacheSaysSo) {
  KvSlots slots(1);
  ASSERT_TRUE(slots.append(kRootSlot).ok());
  EXPECT_EQ(slots.append(kRootSlot).status().code(), StatusCode::kResourceExhausted);
}

TEST(KvSlots, CommitOfTheRootFreesNothingBelowIt) {
  KvSlots slots(4);
  const Slot a = *slots.append(kRootSlot);
  slots.commit(kRootSlot);
  EXPECT_EQ(slots.in_use(), 1);
  EXPECT_EQ(slots.position(a), 0);
}

}  // namespace
}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/model/kv_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>

#include "common/base/clock.h"

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

// The same table in the simplest form: every slot with its whole path.
class PlainSlots {
 public:
  using Path = std::vector<Slot>;

  void append(Slot slot, Slot parent) {
    Path path = parent == kRootSlot ? committed_ : tree_.at(parent);
    path.push_back(slot);
    tree_[slot] = path;
  }
  void release(Slot slot) {
    std::erase_if(tree_, [&](const auto& entry) { return holds(entry.second, slot); });
  }
  void commit(Slot leaf) {
    if (leaf == kRootSlot) return;
    committed_ = tree_.at(leaf);
    std::erase_if(tree_, [&](const auto& entry) {
      return entry.first == leaf || !holds(entry.second, leaf);
    });
  }
  void truncate(std::size_t length) {
    tree_.clear();
    committed_.resize(length);
  }

  const std::map<Slot, Path>& tree() const { return tree_; }
  const Path& committed() const { return committed_; }
  // An uncommitted slot, or kRootSlot.
  Slot pick(std::uint32_t random) const {
    const std::size_t at = random % (tree_.size() + 1);
    return at == tree_.size() ? kRootSlot
                              : std::next(tree_.begin(), static_cast<std::ptrdiff_t>(at))->first;
  }

 private:
  static bool holds(const Path& path, Slot slot) {
    return std::find(path.begin(), path.end(), slot) != path.end();
  }

  Path committed_;
  std::map<Slot, Path> tree_;
};

TEST(KvSlots, AnySequenceOfOperationsGivesThePathsOfThePlainTable) {
  std::mt19937 random(7);
  KvSlots slots(24);
  PlainSlots plain;
  for (int step = 0; step < 20'000; ++step) {
    const Slot some = plain.pick(static_cast<std::uint32_t>(random()));
    switch (random() % 16) {
      case 0:
        slots.commit(some);
        plain.commit(some);
        break;
      case 1:
        if (some == kRootSlot) break;
        slots.release(some);
        plain.release(some);
        break;
      case 2: {
        const std::size_t length = plain.committed().size() - random() % 3;
        if (length > plain.committed().size()) break;
        slots.truncate(static_cast<Position>(length));
        plain.truncate(length);
        break;
      }
      default: {
        const Result<Slot> slot = slots.append(some);
        ASSERT_EQ(slot.ok(), plain.tree().size() + plain.committed().size() < 24u);
        if (slot.ok()) plain.append(*slot, some);
      }
    }
    ASSERT_EQ(slots.committed(), static_cast<Position>(plain.committed().size()));
    ASSERT_EQ(static_cast<std::size_t>(slots.in_use()),
              plain.tree().size() + plain.committed().size());
    for (const auto& [slot, path] : plain.tree()) ASSERT_EQ(path_of(slots, slot), path);
  }
}

// One session's round: a tree of three branches grows, one of them is kept, the others are freed.
void run_round(KvSlots& slots) {
  Slot leaf = kRootSlot;
  for (int branch = 0; branch < 3; ++branch) {
    leaf = *slots.append(kRootSlot);
    for (int depth = 1; depth < 4; ++depth) leaf = *slots.append(leaf);
  }
  slots.release(*slots.append(leaf));
  slots.commit(leaf);
  slots.release_all_uncommitted();
}

// The shortest of several runs, each of two sessions that take turns.
Duration time_of_rounds(std::int32_t capacity) {
  Duration shortest = Duration::max();
  for (int attempt = 0; attempt < 5; ++attempt) {
    KvSlots first(capacity);
    KvSlots second(capacity);
    const TimePoint start = SystemClock().now();
    for (int round = 0; round < 250; ++round) {
      run_round(first);
      run_round(second);
    }
    shortest = std::min(shortest, SystemClock().now() - start);
    EXPECT_EQ(first.committed(), 1000);
    EXPECT_EQ(second.in_use(), 1000);
  }
  return shortest;
}

// A table of 256 times the capacity: scanning it would take some 256 times as long.
TEST(KvSlots, AnOperationCostsWhatItChangesWhateverTheCapacity) {
  EXPECT_LT(time_of_rounds(1 << 18), 32 * time_of_rounds(1 << 10));
}

}  // namespace
}  // namespace outrider

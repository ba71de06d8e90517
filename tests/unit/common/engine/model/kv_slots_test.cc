// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/kv_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "common/base/clock.h"
#include "common/engine/model/cell_values.h"

namespace outrider {
namespace {

using testing::ElementsAre;

// A table in pages of its own, of which each row holds the number that it was given.
class NumberedRows {
 public:
  explicit NumberedRows(std::int32_t capacity)
      : NumberedRows(capacity, std::make_shared<CellValues<int>>(nullptr, 2 * capacity)) {}
  NumberedRows(std::int32_t capacity, std::shared_ptr<CellValues<int>> pages)
      : pages_(std::move(pages)), cache_(pages_, capacity) {}

  KvSlots& slots() { return cache_.slots(); }
  CellValues<int>& pages() { return *pages_; }

  Result<Slot> append(Slot parent, int number) {
    const Result<Slot> slot = slots().append(parent);
    if (slot.ok()) pages_->at(slots().cell(*slot)) = number;
    return slot;
  }
  // Numbers from `first` on, committed.
  void write_text(int first, int count) {
    for (int number = first; number < first + count; ++number) {
      slots().commit(*append(kRootSlot, number));
    }
  }
  std::vector<int> path(Slot slot) {
    std::vector<KvCell> cells;
    slots().path(slot, cells);
    std::vector<int> numbers;
    for (const KvCell cell : cells) numbers.push_back(pages_->at(cell));
    return numbers;
  }
  // The numbers of the committed text.
  std::vector<int> text() {
    std::vector<int> numbers;
    for (Slot slot = 0; slot < slots().committed(); ++slot) {
      numbers.push_back(pages_->at(slots().cell(slot)));
    }
    return numbers;
  }

 private:
  std::shared_ptr<CellValues<int>> pages_;
  KvCache cache_;
};

TEST(KvSlots, ATreeGrowsUnderTheCommittedText) {
  NumberedRows rows(8);
  rows.write_text(1, 1);
  const Slot a = *rows.append(kRootSlot, 2);
  const Slot b = *rows.append(a, 3);
  const Slot c = *rows.append(kRootSlot, 4);
  EXPECT_EQ(rows.slots().position(b), 2);
  EXPECT_THAT(rows.path(b), ElementsAre(1, 2, 3));
  EXPECT_THAT(rows.path(c), ElementsAre(1, 4));
}

TEST(KvSlots, CommitKeepsThePathAndWhatHangsBelowItAndFreesTheRest) {
  NumberedRows rows(8);
  const Slot a = *rows.append(kRootSlot, 1);
  const Slot loser = *rows.append(a, 2);
  const Slot b = *rows.append(a, 3);
  const Slot below = *rows.append(b, 4);
  ASSERT_TRUE(rows.append(loser, 5).ok());
  rows.slots().commit(b);
  EXPECT_EQ(rows.slots().committed(), 2);
  EXPECT_EQ(rows.slots().in_use(), 3);
  EXPECT_THAT(rows.text(), ElementsAre(1, 3)) << "the row off the first chain was copied";
  EXPECT_THAT(rows.path(below), ElementsAre(1, 3, 4));
  EXPECT_THAT(rows.path(*rows.append(below, 6)), ElementsAre(1, 3, 4, 6));
}

TEST(KvSlots, ReleaseFreesASubtreeOnly) {
  NumberedRows rows(8);
  const Slot a = *rows.append(kRootSlot, 1);
  const Slot b = *rows.append(a, 2);
  ASSERT_TRUE(rows.append(b, 3).ok());
  rows.slots().release(b);
  EXPECT_EQ(rows.slots().in_use(), 1);
  EXPECT_EQ(rows.slots().position(a), 0);
}

TEST(KvSlots, TruncateForgetsTheTail) {
  NumberedRows rows(4);
  rows.write_text(0, 3);
  ASSERT_TRUE(rows.append(kRootSlot, 3).ok());
  rows.slots().truncate(1);
  EXPECT_EQ(rows.slots().committed(), 1);
  EXPECT_EQ(rows.slots().in_use(), 1);
  EXPECT_EQ(rows.slots().position(*rows.append(kRootSlot, 4)), 1);
}

TEST(KvSlots, AFullCacheSaysSo) {
  NumberedRows rows(1);
  ASSERT_TRUE(rows.append(kRootSlot, 0).ok());
  EXPECT_EQ(rows.append(kRootSlot, 1).status().code(), StatusCode::kResourceExhausted);
}

TEST(KvSlots, CommitOfTheRootFreesNothingBelowIt) {
  NumberedRows rows(4);
  const Slot a = *rows.append(kRootSlot, 0);
  rows.slots().commit(kRootSlot);
  EXPECT_EQ(rows.slots().in_use(), 1);
  EXPECT_EQ(rows.slots().position(a), 0);
}

// --- pages ---------------------------------------------------------------------------------------

TEST(KvSlots, ATextLiesInOrderAndHoldsOnlyThePagesItNeeds) {
  NumberedRows rows(200);
  rows.write_text(0, 70);
  ASSERT_TRUE(rows.append(kRootSlot, 70).ok());
  ASSERT_TRUE(rows.append(kRootSlot, 71).ok());
  EXPECT_EQ(rows.slots().cell(69), rows.slots().text_pages()[1] * KvPages::kRows + 5);
  EXPECT_EQ(rows.pages().used(), 3) << "one holds the branching row";
  rows.slots().release_all_uncommitted();
  EXPECT_EQ(rows.pages().used(), 2);
  rows.slots().truncate(64);
  EXPECT_EQ(rows.pages().used(), 1);
}

TEST(KvSlots, WhatIsReservedIsThereToAppend) {
  for (const int text : {0, 60, 64, 130}) {
    auto pages = std::make_shared<CellValues<int>>(nullptr, 6);
    NumberedRows rows(400, pages);
    rows.write_text(0, text);
    const std::int32_t needed = rows.slots().pages_needed(100, 30), free = pages->free();
    ASSERT_TRUE(rows.slots().reserve(100, 30).ok());
    EXPECT_EQ(pages->free(), free - needed);
    EXPECT_EQ(rows.slots().pages_needed(100, 30), 0);
    while (pages->free() > 0) ASSERT_TRUE(pages->take(1).ok());
    Slot leaf = kRootSlot;
    for (int i = 0; i < 70; ++i) leaf = *rows.append(leaf, i);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(rows.append(leaf, i).ok()) << i;
  }
}

TEST(KvSlots, ThoseWhoShareATextDoNotChangeEachOthers) {
  NumberedRows first(300);
  first.write_text(0, 100);
  const auto pages = std::shared_ptr<CellValues<int>>(std::shared_ptr<void>(), &first.pages());
  NumberedRows second(300, pages);
  second.slots().begin_with(first.slots().text_pages(), 90);
  EXPECT_EQ(pages->used(), 2);
  EXPECT_EQ(second.slots().pages_needed(1, 0), 1) << "the page that is not full is copied";
  second.write_text(1000, 5);
  EXPECT_EQ(pages->used(), 3);
  first.write_text(100, 5);
  std::vector<int> expected(90);
  std::iota(expected.begin(), expected.end(), 0);
  for (int number = 1000; number < 1005; ++number) expected.push_back(number);
  EXPECT_EQ(second.text(), expected);
  expected.resize(90);
  for (int number = 90; number < 105; ++number) expected.push_back(number);
  EXPECT_EQ(first.text(), expected);
}

TEST(KvSlots, APageIsReplacedByOneWithTheSameContent) {
  NumberedRows first(300);
  first.write_text(0, 64);
  const auto pages = std::shared_ptr<CellValues<int>>(std::shared_ptr<void>(), &first.pages());
  {
    NumberedRows second(300, pages);
    second.write_text(0, 70);
    second.slots().replace_page(0, first.slots().text_pages()[0]);
    EXPECT_EQ(pages->used(), 2);
    EXPECT_EQ(pages->holders(first.slots().text_pages()[0]), 2);
    EXPECT_EQ(second.text()[63], 63);
  }
  EXPECT_EQ(pages->used(), 1);
  EXPECT_EQ(pages->holders(first.slots().text_pages()[0]), 1);
}

// --- any sequence --------------------------------------------------------------------------------

// The same table in the simplest form: every slot with the numbers of its whole path.
class PlainSlots {
 public:
  using Path = std::vector<int>;

  void append(Slot slot, Slot parent, int number) {
    Path path = parent == kRootSlot ? committed_ : tree_.at(parent);
    path.push_back(number);
    tree_[slot] = path;
  }
  void release(Slot slot) {
    drop_all_but([gone = tree_.at(slot)](const Path& path) { return !begins_with(path, gone); });
  }
  void commit(Slot leaf) {
    if (leaf == kRootSlot) return;
    committed_ = tree_.at(leaf);
    drop_all_but([this](const Path& path) {
      return path.size() > committed_.size() && begins_with(path, committed_);
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
  // Numbers are given once, so that a path begins with no other row's.
  static bool begins_with(const Path& path, const Path& with) {
    return path.size() >= with.size() && std::equal(with.begin(), with.end(), path.begin());
  }
  template <class Keep>
  void drop_all_but(const Keep& keep) {
    std::erase_if(tree_, [&](const auto& entry) { return !keep(entry.second); });
  }

  Path committed_;
  std::map<Slot, Path> tree_;
};

TEST(KvSlots, AnySequenceOfOperationsGivesThePathsOfThePlainTable) {
  constexpr std::int32_t kCapacity = 150;
  std::mt19937 random(7);
  NumberedRows rows(kCapacity);
  KvSlots& slots = rows.slots();
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
        const std::size_t length = plain.committed().size() - random() % 9;
        if (length > plain.committed().size()) break;
        slots.truncate(static_cast<Position>(length));
        plain.truncate(length);
        break;
      }
      default: {
        const Result<Slot> slot = rows.append(some, step);
        ASSERT_EQ(slot.ok(), plain.tree().size() + plain.committed().size() < kCapacity);
        if (slot.ok()) plain.append(*slot, some, step);
      }
    }
    ASSERT_EQ(rows.text(), plain.committed());
    ASSERT_EQ(static_cast<std::size_t>(slots.in_use()),
              plain.tree().size() + plain.committed().size());
    for (const auto& [slot, path] : plain.tree()) ASSERT_EQ(rows.path(slot), path);
  }
  slots.truncate(0);
  EXPECT_EQ(rows.pages().used(), 0);
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
    NumberedRows one(capacity), other(capacity);
    KvSlots &first = one.slots(), &second = other.slots();
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

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/kv_slots.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace outrider {
namespace {

constexpr std::int32_t kRows = KvPages::kRows;
constexpr std::int32_t kBranchingRows = 1024;

std::int32_t pages_of(std::int64_t rows) {
  return static_cast<std::int32_t>((rows + kRows - 1) / kRows);
}

}  // namespace

KvSlots::KvSlots(KvPages& pages, std::int32_t capacity, std::int32_t owner)
    : pages_(pages), capacity_(capacity), owner_(owner), tree_begin_(pages_of(capacity) * kRows) {
  OUTRIDER_CHECK(capacity > 0);
}

KvSlots::~KvSlots() {
  for (const KvPage page : text_pages_) pages_.give_back(page);
  for (const KvPage page : tree_pages_) pages_.give_back(page);
}

std::int32_t KvSlots::pages_for(std::int32_t capacity) {
  return pages_of(capacity) + pages_of(std::min(capacity, kBranchingRows));
}

KvSlots::Entry& KvSlots::entry(Slot slot) {
  return is_placed(slot) ? placed_[static_cast<std::size_t>(slot - committed_)]
                         : tree_[tree_index(slot)];
}

bool KvSlots::holds(Slot slot) const {
  if (slot < 0) return false;
  if (is_placed(slot)) return slot < placed_end();
  return tree_index(slot) < tree_.size() && tree_[tree_index(slot)].in_use;
}

Position KvSlots::position(Slot slot) const {
  OUTRIDER_CHECK(holds(slot));
  return is_placed(slot) ? slot : entry(slot).position;
}

Slot KvSlots::parent(Slot slot) const {
  OUTRIDER_CHECK(holds(slot));
  return is_committed(slot) ? kRootSlot : entry(slot).parent;
}

KvCell KvSlots::text_cell(Position position) const {
  return text_pages_[static_cast<std::size_t>(position / kRows)] * kRows +
         static_cast<KvCell>(position % kRows);
}

KvCell KvSlots::cell(Slot slot) const {
  OUTRIDER_CHECK(holds(slot));
  if (is_placed(slot)) return text_cell(slot);
  const std::size_t at = tree_index(slot);
  return tree_pages_[at / kRows] * kRows + static_cast<KvCell>(at % kRows);
}

void KvSlots::path(Slot slot, std::vector<KvCell>& cells) const {
  cells.resize(static_cast<std::size_t>(position(slot)) + 1);
  std::size_t end = cells.size();
  for (; slot != kRootSlot && !is_placed(slot); slot = entry(slot).parent) {
    cells[--end] = cell(slot);
  }
  // The rest lies in order: committed, or of the first chain.
  for (std::size_t begin = 0; begin < end; begin += kRows) {
    const auto to = cells.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto rows = static_cast<std::ptrdiff_t>(std::min<std::size_t>(end - begin, kRows));
    std::iota(to, to + rows, text_pages_[begin / kRows] * kRows);
  }
}

// The text's page of a position that is not committed is there, and this sequence's alone.
Status KvSlots::make_place(Position position) {
  const auto index = static_cast<std::size_t>(position / kRows);
  OUTRIDER_CHECK(index <= text_pages_.size());
  const bool is_new = index == text_pages_.size();
  if (!is_new && pages_.holders(text_pages_[index]) == 1) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const KvPage page, pages_.take(owner_));
  if (is_new) {
    text_pages_.push_back(page);
    return {};
  }
  const auto kept = static_cast<std::int32_t>(committed_ % kRows);
  if (kept > 0) pages_.copy(text_pages_[index] * kRows, page * kRows, kept);
  pages_.give_back(std::exchange(text_pages_[index], page));
  return {};
}

Status KvSlots::make_branching_places(std::int32_t rows) {
  while (static_cast<std::int64_t>(tree_pages_.size()) * kRows < tree_in_use_ + rows) {
    OUTRIDER_ASSIGN_OR_RETURN(const KvPage page, pages_.take(owner_));
    tree_pages_.push_back(page);
  }
  return {};
}

Status KvSlots::reserve(std::int32_t rows, std::int32_t branching) {
  for (Position position = placed_end(); position < placed_end() + rows;
       position += kRows - position % kRows) {
    OUTRIDER_RETURN_IF_ERROR(make_place(position));
  }
  return make_branching_places(branching);
}

std::int32_t KvSlots::pages_needed(std::int32_t rows, std::int32_t branching) const {
  const auto text = static_cast<std::int32_t>(text_pages_.size());
  const std::int32_t copied =
      rows > 0 && placed_end() < Position{text} * kRows &&
      pages_.holders(text_pages_[static_cast<std::size_t>(placed_end() / kRows)]) > 1;
  return copied + std::max(pages_of(placed_end() + rows) - text, 0) +
         std::max(pages_of(std::int64_t{tree_in_use_} + branching) -
                      static_cast<std::int32_t>(tree_pages_.size()),
                  0);
}

Result<Slot> KvSlots::take_branching_slot() {
  OUTRIDER_RETURN_IF_ERROR(make_branching_places(1));
  Slot slot = tree_begin_ + static_cast<Slot>(tree_.size());
  if (free_.empty()) {
    tree_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  ++tree_in_use_;
  return slot;
}

Result<Slot> KvSlots::append(Slot parent) {
  OUTRIDER_CHECK(parent == kRootSlot || (holds(parent) && !is_committed(parent)));
  const Position position = parent == kRootSlot ? committed_ : this->position(parent) + 1;
  if (in_use() == capacity_) {
    return resource_exhausted("KV cache: all " + std::to_string(capacity_) + " slots are in use");
  }
  OUTRIDER_RETURN_IF_ERROR(make_place(position));
  const Slot last_placed = placed_.empty() ? kRootSlot : static_cast<Slot>(placed_end()) - 1;
  auto slot = static_cast<Slot>(position);
  if (parent == last_placed) {
    placed_.emplace_back();
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(slot, take_branching_slot());
  }
  Slot& first = first_child(parent);
  entry(slot) = {.in_use = true, .position = position, .parent = parent, .next = first};
  if (first != kNoSlot) entry(first).previous = slot;
  first = slot;
  return slot;
}

void KvSlots::commit(Slot leaf) {
  if (leaf == kRootSlot) return;
  OUTRIDER_CHECK(holds(leaf) && !is_committed(leaf));
  std::vector<Slot> accepted;
  for (Slot slot = leaf; slot != kRootSlot; slot = entry(slot).parent) accepted.push_back(slot);
  const Slot below = entry(leaf).first_child;
  for (auto it = accepted.rbegin(); it != accepted.rend(); ++it) {
    free_siblings(*it);
    if (is_placed(*it)) {
      placed_.pop_front();
    } else {
      pages_.copy(cell(*it), text_cell(committed_), 1);
      free_branching_slot(*it);
    }
    ++committed_;
  }
  // The children of the leaf become children of the root.
  first_of_root_ = below;
  for (Slot child = below; child != kNoSlot; child = entry(child).next) {
    entry(child).parent = kRootSlot;
  }
  give_back_unused_pages();
}

void KvSlots::release(Slot slot) {
  OUTRIDER_CHECK(holds(slot) && !is_committed(slot));
  unlink(slot);
  free_subtree(slot);
  give_back_unused_pages();
}

void KvSlots::truncate(Position length) {
  OUTRIDER_CHECK(length >= 0 && length <= committed());
  while (first_of_root_ != kNoSlot) {
    const Slot child = first_of_root_;
    unlink(child);
    free_subtree(child);
  }
  committed_ = length;
  while (text_pages_.size() > static_cast<std::size_t>(pages_of(committed_))) {
    pages_.give_back(text_pages_.back());
    text_pages_.pop_back();
  }
  give_back_unused_pages();
}

void KvSlots::begin_with(std::span<const KvPage> pages, Position length) {
  OUTRIDER_CHECK(in_use() == 0 && length <= capacity_);
  OUTRIDER_CHECK(static_cast<std::int32_t>(pages.size()) == pages_of(length));
  truncate(0);
  for (const KvPage page : pages) pages_.share(page);
  text_pages_.assign(pages.begin(), pages.end());
  committed_ = length;
}

void KvSlots::replace_page(std::size_t index, KvPage page) {
  OUTRIDER_CHECK(static_cast<Position>(index + 1) * kRows <= committed_);
  pages_.share(page);
  pages_.give_back(std::exchange(text_pages_[index], page));
}

Slot& KvSlots::first_child(Slot parent) {
  return parent == kRootSlot ? first_of_root_ : entry(parent).first_child;
}

// Takes the slot out of its parent's list of children.
void KvSlots::unlink(Slot slot) {
  const Entry& gone = entry(slot);
  if (gone.next != kNoSlot) entry(gone.next).previous = gone.previous;
  (gone.previous != kNoSlot ? entry(gone.previous).next : first_child(gone.parent)) = gone.next;
}

// The slot must be unlinked.
void KvSlots::free_subtree(Slot slot) {
  std::vector<Slot> gone = {slot};
  for (std::size_t done = 0; done < gone.size(); ++done) {
    for (Slot child = entry(gone[done]).first_child; child != kNoSlot; child = entry(child).next) {
      gone.push_back(child);
    }
  }
  // The first chain loses an end, if it loses anything.
  for (const Slot one : gone) {
    if (!is_placed(one)) {
      free_branching_slot(one);
    } else if (one < placed_end()) {
      placed_.resize(static_cast<std::size_t>(one - committed_));
    }
  }
}

void KvSlots::free_branching_slot(Slot slot) {
  entry(slot) = {};
  free_.push_back(slot);
  --tree_in_use_;
}

// Frees the slot's siblings and everything below them.
void KvSlots::free_siblings(Slot slot) {
  for (Slot sibling = entry(slot).previous; sibling != kNoSlot;) {
    free_subtree(std::exchange(sibling, entry(sibling).previous));
  }
  for (Slot sibling = entry(slot).next; sibling != kNoSlot;) {
    free_subtree(std::exchange(sibling, entry(sibling).next));
  }
}

void KvSlots::give_back_unused_pages() {
  if (tree_in_use_ > 0) return;
  tree_.clear();
  free_.clear();
  for (const KvPage page : tree_pages_) pages_.give_back(page);
  tree_pages_.clear();
}

}  // namespace outrider

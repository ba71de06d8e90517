// SPDX-License-Identifier: Apache-2.0
#include "common/model/kv_slots.h"

#include <algorithm>
#include <string>
#include <utility>

namespace outrider {

KvSlots::KvSlots(std::int32_t capacity) {
  OUTRIDER_CHECK(capacity > 0);
  entries_.resize(static_cast<std::size_t>(capacity));
  free_.resize(static_cast<std::size_t>(capacity));
  for (std::int32_t i = 0; i < capacity; ++i) {
    free_[static_cast<std::size_t>(i)] = capacity - 1 - i;
  }
}

Slot KvSlots::committed_slot(Position position) const {
  OUTRIDER_CHECK(position >= 0 && position < committed());
  return committed_[static_cast<std::size_t>(position)];
}

Result<Slot> KvSlots::append(Slot parent) {
  Position position = committed();
  if (parent != kRootSlot) {
    const Entry& above = entries_.at(static_cast<std::size_t>(parent));
    OUTRIDER_CHECK(above.state == State::kTree);
    position = above.position + 1;
  }
  if (free_.empty()) {
    return resource_exhausted("KV cache: all " + std::to_string(capacity()) + " slots are in use");
  }
  const Slot slot = free_.back();
  free_.pop_back();
  Slot& first = first_child(parent);
  entry(slot) = {.state = State::kTree, .position = position, .parent = parent, .next = first};
  if (first != kNoSlot) entry(first).previous = slot;
  first = slot;
  return slot;
}

bool KvSlots::holds(Slot slot) const {
  return slot >= 0 && slot < capacity() && entry(slot).state != State::kFree;
}

Position KvSlots::position(Slot slot) const {
  OUTRIDER_CHECK(holds(slot));
  return entry(slot).position;
}

bool KvSlots::is_committed(Slot slot) const {
  return entries_.at(static_cast<std::size_t>(slot)).state == State::kCommitted;
}

Slot KvSlots::parent(Slot slot) const {
  OUTRIDER_CHECK(holds(slot));
  return entry(slot).parent;
}

void KvSlots::path(Slot slot, std::vector<Slot>& path) const {
  path.resize(static_cast<std::size_t>(position(slot)) + 1);
  std::size_t next = path.size();
  for (; slot != kRootSlot && !is_committed(slot); slot = entry(slot).parent) {
    path[--next] = slot;
  }
  // The rest is committed: a slot under the root follows at committed().
  std::copy_n(committed_.begin(), next, path.begin());
}

void KvSlots::commit(Slot leaf) {
  if (leaf == kRootSlot) return;
  OUTRIDER_CHECK(holds(leaf) && !is_committed(leaf));
  std::vector<Slot> accepted;
  for (Slot slot = leaf; slot != kRootSlot; slot = entry(slot).parent) accepted.push_back(slot);
  const Slot below = entry(leaf).first_child;
  for (auto it = accepted.rbegin(); it != accepted.rend(); ++it) {
    free_siblings(*it);
    entry(*it) = {.state = State::kCommitted, .position = committed()};
    committed_.push_back(*it);
  }
  // The children of the leaf become children of the root.
  first_of_root_ = below;
  for (Slot child = below; child != kNoSlot; child = entry(child).next) {
    entry(child).parent = kRootSlot;
  }
}

void KvSlots::release(Slot slot) {
  OUTRIDER_CHECK(holds(slot) && !is_committed(slot));
  unlink(slot);
  free_subtree(slot);
}

void KvSlots::truncate(Position length) {
  OUTRIDER_CHECK(length >= 0 && length <= committed());
  while (first_of_root_ != kNoSlot) release(first_of_root_);
  for (; committed() > length; committed_.pop_back()) {
    entry(committed_.back()) = {};
    free_.push_back(committed_.back());
  }
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
  std::size_t done = free_.size();
  free_.push_back(slot);
  for (; done < free_.size(); ++done) {
    Entry& freed = entry(free_[done]);
    for (Slot child = freed.first_child; child != kNoSlot; child = entry(child).next) {
      free_.push_back(child);
    }
    freed = {};
  }
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

}  // namespace outrider

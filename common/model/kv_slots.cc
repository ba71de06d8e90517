// SPDX-License-Identifier: Apache-2.0
#include "common/model/kv_slots.h"

#include <algorithm>
#include <string>

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
  ++in_use_;
  entries_[static_cast<std::size_t>(slot)] = {State::kTree, parent, position};
  return slot;
}

bool KvSlots::holds(Slot slot) const {
  return slot >= 0 && slot < capacity() &&
         entries_[static_cast<std::size_t>(slot)].state != State::kFree;
}

Position KvSlots::position(Slot slot) const {
  const Entry& entry = entries_.at(static_cast<std::size_t>(slot));
  OUTRIDER_CHECK(entry.state != State::kFree);
  return entry.position;
}

bool KvSlots::is_committed(Slot slot) const {
  return entries_.at(static_cast<std::size_t>(slot)).state == State::kCommitted;
}

Slot KvSlots::parent(Slot slot) const {
  OUTRIDER_CHECK(holds(slot));
  return entries_[static_cast<std::size_t>(slot)].parent;
}

void KvSlots::path(Slot slot, std::vector<Slot>& path) const {
  path.resize(static_cast<std::size_t>(position(slot)) + 1);
  std::size_t next = path.size();
  for (; slot != kRootSlot && !is_committed(slot);
       slot = entries_[static_cast<std::size_t>(slot)].parent) {
    path[--next] = slot;
  }
  // What is left is committed: a slot under the root continues it at committed().
  std::copy_n(committed_.begin(), next, path.begin());
}

void KvSlots::commit(Slot leaf) {
  for (Slot slot = 0; slot < capacity(); ++slot) {
    if (entries_[static_cast<std::size_t>(slot)].state != State::kTree) continue;
    if (descends_from(slot, leaf) || descends_from(leaf, slot)) continue;
    free_slot(slot);
  }
  std::vector<Slot> accepted;
  for (Slot slot = leaf; slot != kRootSlot;
       slot = entries_[static_cast<std::size_t>(slot)].parent) {
    accepted.push_back(slot);
  }
  for (auto it = accepted.rbegin(); it != accepted.rend(); ++it) {
    entries_[static_cast<std::size_t>(*it)].state = State::kCommitted;
    entries_[static_cast<std::size_t>(*it)].parent = kRootSlot;
    committed_.push_back(*it);
  }
  // The children of the leaf now hang under the root.
  for (Entry& entry : entries_) {
    if (entry.state == State::kTree && entry.parent == leaf) entry.parent = kRootSlot;
  }
}

void KvSlots::release(Slot slot) {
  OUTRIDER_CHECK(entries_.at(static_cast<std::size_t>(slot)).state == State::kTree);
  std::vector<Slot> doomed;
  for (Slot other = 0; other < capacity(); ++other) {
    if (entries_[static_cast<std::size_t>(other)].state == State::kTree &&
        descends_from(other, slot)) {
      doomed.push_back(other);
    }
  }
  for (Slot other : doomed) free_slot(other);
}

void KvSlots::truncate(Position length) {
  OUTRIDER_CHECK(length >= 0 && length <= committed());
  for (Slot slot = 0; slot < capacity(); ++slot) {
    const Entry& entry = entries_[static_cast<std::size_t>(slot)];
    const bool beyond = entry.state == State::kCommitted && entry.position >= length;
    if (entry.state == State::kTree || beyond) free_slot(slot);
  }
  committed_.resize(static_cast<std::size_t>(length));
}

void KvSlots::free_slot(Slot slot) {
  entries_[static_cast<std::size_t>(slot)] = {};
  free_.push_back(slot);
  --in_use_;
}

// True if `slot` is `ancestor` or lies below it; everything lies below the root.
bool KvSlots::descends_from(Slot slot, Slot ancestor) const {
  if (ancestor == kRootSlot) return true;
  for (; slot != kRootSlot; slot = entries_[static_cast<std::size_t>(slot)].parent) {
    if (slot == ancestor) return true;
  }
  return false;
}

}  // namespace outrider

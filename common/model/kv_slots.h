// The slot table of one sequence's KV cache: the position of each slot, and its parent. A
// speculative tree lives beside the committed text; keeping a branch changes the table only and
// never copies keys or values.
//
// A slot's row sees the positions on its path: the committed slots below it, its uncommitted
// ancestors, itself. Storage for keys and values belongs to the backend; this class has no tensors.
// An operation's cost is proportional to the slots that it takes, commits or frees, not to the
// capacity.
//
//   committed:  slot_of[0] slot_of[1] ... slot_of[end-1]
//   tree:                                  +- a - b
//                                          +- c          (append() under kRootSlot or any slot)
//
// Thread rule: owned by the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

using Slot = std::int32_t;

// Stands for "the end of the committed text" as a parent.
inline constexpr Slot kRootSlot = -1;

class KvSlots final {
 public:
  // capacity: the most slots in use at once, committed and not; > 0.
  explicit KvSlots(std::int32_t capacity);

  std::int32_t capacity() const { return static_cast<std::int32_t>(entries_.size()); }
  std::int32_t in_use() const { return capacity() - static_cast<std::int32_t>(free_.size()); }

  // The number of committed positions.
  Position committed() const { return static_cast<Position>(committed_.size()); }
  // 0 <= position < committed().
  Slot committed_slot(Position position) const;

  // Takes a free slot for a row that follows `parent` (an uncommitted slot, or kRootSlot).
  // RESOURCE_EXHAUSTED when none is free.
  Result<Slot> append(Slot parent);

  // True if `slot` is the number of a slot in use.
  bool holds(Slot slot) const;

  // The slot's position in prefix and answer. The slot must be in use.
  Position position(Slot slot) const;
  bool is_committed(Slot slot) const;
  // The uncommitted slot that a slot in use follows, or kRootSlot.
  Slot parent(Slot slot) const;

  // Writes the path of `slot` in position order, itself last: path.size() == position(slot) + 1.
  void path(Slot slot, std::vector<Slot>& path) const;

  // Commits the path from the root to `leaf` (an uncommitted slot, or kRootSlot: nothing) and
  // frees every uncommitted slot that does not descend from `leaf`; its descendants stay.
  void commit(Slot leaf);

  // Frees an uncommitted slot and all its descendants.
  void release(Slot slot);

  // Frees every uncommitted slot.
  void release_all_uncommitted() { truncate(committed()); }

  // Keeps the first `length` committed positions, frees the rest. 0 <= length <= committed().
  void truncate(Position length);

 private:
  // Ends a list of children.
  static constexpr Slot kNoSlot = -2;

  enum class State : std::uint8_t { kFree, kTree, kCommitted };
  struct Entry {
    State state = State::kFree;
    Position position = 0;
    // An uncommitted slot's place in the tree. The children of a slot are a list, newest first.
    Slot parent = kRootSlot;
    Slot first_child = kNoSlot;
    Slot next = kNoSlot, previous = kNoSlot;  // siblings
  };

  Entry& entry(Slot slot) { return entries_[static_cast<std::size_t>(slot)]; }
  const Entry& entry(Slot slot) const { return entries_[static_cast<std::size_t>(slot)]; }
  Slot& first_child(Slot parent);
  void unlink(Slot slot);
  void free_subtree(Slot slot);
  void free_siblings(Slot slot);

  std::vector<Entry> entries_;
  std::vector<Slot> committed_;   // by position
  std::vector<Slot> free_;        // a stack; lowest slots first on a fresh table
  Slot first_of_root_ = kNoSlot;  // child of kRootSlot
};

}  // namespace outrider

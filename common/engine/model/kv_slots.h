// The slot table of one sequence's KV cache: the position of each slot, its parent, and the cell of
// the pages (kv_pages.h) where its keys and values lie. A speculative tree lives beside the
// committed text.
//
// A slot's row sees the positions on its path: the committed slots below it, its uncommitted
// ancestors, itself.
//
//   committed:  0  1 .. end-1        a committed row's slot is its position
//   tree:                  +- a - b
//                          +- c      (append() under kRootSlot or any slot)
//
// Position p of the text lies in cell p % 64 of the text's page p / 64, so that the full pages of a
// text can be shared. The first chain of the tree lies there from the start; its other rows are in
// pages of their own, and commit() copies those that it keeps. append() takes all pages that the
// commit may need: a commit never fails.
//
// An operation's cost is proportional to the slots that it takes, commits or frees, not to the
// capacity.
//
// Thread rule: owned by the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/model/kv_pages.h"

namespace outrider {

using Slot = std::int32_t;

// Stands for "the end of the committed text" as a parent.
inline constexpr Slot kRootSlot = -1;

class KvSlots final {
 public:
  // capacity: the most slots in use at once, committed and not; > 0. pages: outlives this. owner:
  // as KvPages::take() says.
  KvSlots(KvPages& pages, std::int32_t capacity, std::int32_t owner = 0);
  ~KvSlots();
  KvSlots(const KvSlots&) = delete;
  KvSlots& operator=(const KvSlots&) = delete;

  // The pages that a table alone needs: for its capacity, and for up to 1,024 branching rows.
  static std::int32_t pages_for(std::int32_t capacity);

  std::int32_t capacity() const { return capacity_; }
  std::int32_t in_use() const { return static_cast<Slot>(placed_end()) + tree_in_use_; }

  // The number of committed positions.
  Position committed() const { return committed_; }

  // Takes a free slot for a row that follows `parent` (an uncommitted slot, or kRootSlot).
  // RESOURCE_EXHAUSTED when no slot or no page is free.
  Result<Slot> append(Slot parent);
  // Takes the pages that the next `rows` rows need, in whatever tree they are appended; `branching`
  // of them may lie off the first chain. RESOURCE_EXHAUSTED when there are not enough.
  Status reserve(std::int32_t rows, std::int32_t branching);
  // How many pages reserve() would take.
  std::int32_t pages_needed(std::int32_t rows, std::int32_t branching) const;

  // True if `slot` is the number of a slot in use.
  bool holds(Slot slot) const;

  // The slot's position in prefix and answer. The slot must be in use.
  Position position(Slot slot) const;
  bool is_committed(Slot slot) const { return slot >= 0 && slot < committed_; }
  // The uncommitted slot that a slot in use follows, or kRootSlot.
  Slot parent(Slot slot) const;

  // Where the row of a slot in use lies.
  KvCell cell(Slot slot) const;
  // Writes the cells of the path of `slot` in position order, its own last: cells.size() ==
  // position(slot) + 1.
  void path(Slot slot, std::vector<KvCell>& cells) const;

  // Commits the path from the root to `leaf` (an uncommitted slot, or kRootSlot: nothing) and
  // frees every uncommitted slot that does not descend from `leaf`; its descendants stay. The
  // committed rows' slots are then their positions.
  void commit(Slot leaf);

  // Frees an uncommitted slot and all its descendants.
  void release(Slot slot);

  // Frees every uncommitted slot.
  void release_all_uncommitted() { truncate(committed()); }

  // Keeps the first `length` committed positions, frees the rest. 0 <= length <= committed().
  void truncate(Position length);

  // --- sharing ---
  // The pages of the text, in order; full or not.
  std::span<const KvPage> text_pages() const { return text_pages_; }
  // Begins with the first `length` positions of another text, which lie in these pages. Nothing is
  // in use yet. A page that is not full is copied before this sequence writes to it.
  void begin_with(std::span<const KvPage> pages, Position length);
  // Holds `page`, which has the same content, in place of the text's full page of that index.
  void replace_page(std::size_t index, KvPage page);

  // A backend's mark on an uncommitted slot: the row of the running pass that fills it; -1: none.
  std::int32_t& pass_row(Slot slot) { return entry(slot).pass_row; }

 private:
  // Ends a list of children.
  static constexpr Slot kNoSlot = -2;

  // An uncommitted slot's place in the tree. The children of a slot are a list, newest first.
  struct Entry {
    bool in_use = false;
    Position position = 0;
    Slot parent = kRootSlot;
    Slot first_child = kNoSlot;
    Slot next = kNoSlot, previous = kNoSlot;  // siblings
    std::int32_t pass_row = -1;
  };

  Position placed_end() const { return committed_ + static_cast<Position>(placed_.size()); }
  bool is_placed(Slot slot) const { return slot < tree_begin_; }
  std::size_t tree_index(Slot slot) const { return static_cast<std::size_t>(slot - tree_begin_); }
  Entry& entry(Slot slot);
  const Entry& entry(Slot slot) const { return const_cast<KvSlots*>(this)->entry(slot); }
  KvCell text_cell(Position position) const;
  Status make_place(Position position);
  Status make_branching_places(std::int32_t rows);
  Result<Slot> take_branching_slot();
  Slot& first_child(Slot parent);
  void unlink(Slot slot);
  void free_subtree(Slot slot);
  void free_siblings(Slot slot);
  void free_branching_slot(Slot slot);
  void give_back_unused_pages();

  KvPages& pages_;
  const std::int32_t capacity_;
  const std::int32_t owner_;
  const Slot tree_begin_;  // the slots of branching rows begin here; a whole page

  Position committed_ = 0;
  std::vector<KvPage> text_pages_;  // [position / 64]
  // The tree's first chain, from the root: rows that lie in the text's pages. [slot - committed_]
  std::deque<Entry> placed_;

  std::vector<Entry> tree_;         // [slot - tree_begin_]: the tree's other rows
  std::vector<Slot> free_;          // of those, a stack
  std::int32_t tree_in_use_ = 0;    // of those
  std::vector<KvPage> tree_pages_;  // [(slot - tree_begin_) / 64]

  Slot first_of_root_ = kNoSlot;  // child of kRootSlot
};

}  // namespace outrider

// One unit of work for the draft model, and its result: plain values that cross from the event
// thread to the compute thread and back.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/engine/model/kv_slots.h"
#include "common/engine/sampling/guess.h"

namespace outrider {

// A row of the tree: `token` in a new slot under its parent, which is another row of the same step
// or a slot of an earlier step.
struct DraftRow {
  Slot parent = kRootSlot;  // of an earlier step, or kRootSlot; if parent_row < 0
  int parent_row = -1;      // an earlier row of this step
  TokenId token = 0;
};

// In this order: the cache is cut to `keep`, the path to `commit` becomes committed, `release` is
// freed, then either `catch_up` or `grow` is run as one pass.
struct DraftStep {
  std::optional<Position> keep;       // cut to this many committed positions; frees all tree slots
  std::optional<Slot> commit;         // frees what does not descend from it
  std::vector<Slot> release;          // of evicted nodes; some may be free already
  std::vector<TokenId> catch_up;      // committed tokens without KV: frees all tree slots, then
                                      // appends and commits them
  bool guess_after_catch_up = false;  // the last of them ends the text: guess what follows
  std::vector<DraftRow> grow;
  int fan_out = 1;  // guesses wanted per row
};

struct DraftStepDone {
  std::vector<Slot> slots;                  // per grown row
  std::vector<std::vector<Guess>> guesses;  // per grown row, or one for the end of the catch-up
  Duration compute{0};                      // without waiting for a target that computes first
  bool abandoned = false;  // its rows became obsolete: the slots hold nothing, there are no guesses
};

}  // namespace outrider

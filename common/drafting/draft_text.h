// How the draft's KV cache follows the committed text, lazily: the next step commits the slots of
// accepted nodes and runs the rows of tokens that have none (the last accepted node, the token
// after it).
//
//   restart (append | settle fill_catch_up | row_done)*
//
// Thread rule: none of its own; owned by the drafter. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/drafting/draft_step.h"

namespace outrider {

class DraftText final {
 public:
  // Begins anew with this text; keeps the KV of the longest common prefix with the text before.
  void restart(std::span<const TokenId> committed);

  // A committed token. slot: of its row, kRootSlot if it was not run; step_row: the row of the
  // step that is out which runs it, or -1.
  void append(TokenId token, Slot slot, int step_row);

  // A row of the step that is out is done: if it was of a committed token, gives that its slot.
  // True if that token ends the text.
  bool row_done(int step_row, Slot slot);

  // A committed token waits for a row of the step that is out.
  bool awaits_row() const;

  // Into the step: what to cut and to commit before its rows.
  void settle(DraftStep& step);
  // Into the step: at most `chunk` committed tokens without KV.
  void fill_catch_up(DraftStep& step, std::size_t chunk);

 private:
  // A committed token whose KV is not committed in the draft's cache yet.
  struct Pending {
    TokenId token = 0;
    Slot slot = kRootSlot;
    int step_row = -1;
  };

  std::vector<TokenId> cached_;   // what the cache holds committed once the steps given are done
  std::optional<Position> keep_;  // cut the cache first
  std::vector<Pending> pending_;  // committed, not in cached_
};

}  // namespace outrider

// The verifier's own guesses beside the edge's, in one tree: by look-up in the session's text,
// which takes microseconds and no model (docs/look-up.md). Only the target decides, so they
// cannot change the text.
//
// They are made before each pass: what is likely after the text and after the nodes that are there,
// as long as a row is worth its time; and they go with its verdict. They have no ids. An edge hears
// which of a verdict's tokens they were.
//
// Thread rule: owned by one thread, pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/drafting/lookup/look_up.h"
#include "common/tree/mirrored_tree.h"
#include "common/tree/row_budget.h"

namespace outrider {

class ServerDraft final {
 public:
  // end_position: of the session's text at the longest.
  explicit ServerDraft(Position end_position);

  // Adds at most budget.nodes, none that stands with less chance than `least_chance`, none behind
  // budget.last_position. Does nothing for a text and nodes of the edge's for which it was called.
  void grow(MirroredTree& tree, const RowBudget& budget, double least_chance);

 private:
  void follow(std::span<const TokenId> text);

  LookUp look_up_;
  bool begun_ = false;
  std::pair<Position, NodeId> grown_at_ = {-1, 0};  // the tree's end and last id
};

}  // namespace outrider

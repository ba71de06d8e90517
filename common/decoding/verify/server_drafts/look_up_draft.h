// The verifier's own guesses beside the edge's, in one tree: by look-up in the session's text and
// in those that its tenant's sessions left (tenant_texts.h), which takes microseconds and no model
// (docs/look-up.md). Only the target decides, so they cannot change the text.
//
// They are made before each pass: what is likely after the text and after the nodes that are there,
// as long as a row is worth its time; and they go with its verdict. They have no ids. An edge hears
// which of a verdict's tokens they were.
//
// Thread rule: owned by one thread, pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/drafting/lookup/look_up.h"
#include "common/decoding/tree/mirrored_tree.h"
#include "common/decoding/tree/row_budget.h"

namespace outrider {

class LookUpDraft final {
 public:
  // end_position: of the session's text at the longest.
  explicit LookUpDraft(Position end_position);

  // Adds at most budget.nodes, none that stands with less chance than `least_chance`, none behind
  // budget.last_position. Does nothing for a text and nodes for which it was called.
  // shared: the tenant's texts; null: there are none.
  void grow(MirroredTree& tree, const RowBudget& budget, double least_chance,
            const MatchFinder* shared = nullptr);

 private:
  void follow(std::span<const TokenId> text, const MatchFinder* shared);

  LookUp look_up_;
  bool begun_ = false;
  std::tuple<Position, NodeId, std::size_t> grown_ = {-1, 0, 0};  // the tree's end, last id, size
};

}  // namespace outrider

// The verifier's own guesses where an answer's form leaves no choice, in the tree that it shares
// with the edge: behind {"x": 1, a schema may let only "y": come, and four passes become one
// (docs/constraints.md). No model is asked. A text may have several spellings in tokens, so the
// target verifies what is guessed as any draft.
//
// A chain ends where the form leaves a choice. How often its tokens stood, which is how often the
// model spells as its tokenizer does, is learnt from the answer itself: the last one is often the
// beginning of a longer token.
//
// Thread rule: owned by one thread, pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/tree/mirrored_tree.h"
#include "common/decoding/tree/row_budget.h"
#include "common/engine/sampling/row_adjuster.h"

namespace outrider {

class FormDraft final {
 public:
  // Adds what is forced behind the text, and behind each node without children: at most
  // budget.nodes, none that stands with less chance than `least_chance`, none behind
  // budget.last_position. Does nothing for a text and nodes for which it was called.
  // form: of the answer, at the end of the tree's text.
  void grow(MirroredTree& tree, const RowAdjuster& form, const RowBudget& budget,
            double least_chance);

 private:
  struct Record {
    double cases;
    double right;
  };
  enum class Rank : std::uint8_t { kInner, kLast };  // of a token in its chain

  Record& record(Rank rank) { return records_[static_cast<std::size_t>(rank)]; }
  double chance(Rank rank) { return record(rank).right / record(rank).cases; }
  static Rank rank_of(std::size_t token, std::size_t length) {
    return token + 1 == length ? Rank::kLast : Rank::kInner;
  }
  void learn(std::span<const TokenId> text);

  // The first numbers stand for experience before any answer.
  std::array<Record, 2> records_{{{8, 7.6}, {8, 5}}};
  std::vector<TokenId> guessed_;  // behind the text of the last call
  std::size_t guessed_at_ = 0;    // its length
  std::tuple<Position, NodeId, std::size_t> grown_ = {-1, 0, 0};  // the tree's end, last id, size
};

}  // namespace outrider

// A market for the rows of a pass that many sessions share (docs/many-sessions.md): which of them
// are worth their time.
//
// A node that stands with chance p brings p tokens. One more row makes the pass longer, and all
// who wait for its end get their next tokens later by that much: what they would get meanwhile is
// its price. So the best k rows ride for which
//
//   sum of weight * chance  -  price * T(rows)
//
// is greatest, T being what passes of so many rows take on this device. Chances are what stood
// before, not what an edge states (session.h): it does not pay to boast.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/decoding/costs/row_curve.h"

namespace outrider {

// The rows that a session would have in the pass.
struct RowOffer {
  // Rows of a prompt that it reads, within the budget for that, whatever they cost. 0: one row of
  // text, which gives a token for sure and is priced like others.
  std::size_t prompt_rows = 0;
  bool is_plain = false;  // it never drafts: its row of text rides if its weight is at least 1
  double weight = 1;      // of each of its tokens
  std::vector<float> chances = {};  // of its nodes, in [0, 1] and falling: that each stands
};

struct RowBounds {
  std::size_t most_rows = 0;  // of the pass; prompts may exceed it
  double price = 0;           // tokens per second, weighted, that everybody loses while it lasts
};

// How many of its nodes, the first ones, each session has in the pass; nothing: it waits for a
// later one. Somebody rides always. Where two are equal, who comes first in `offers` does.
// curve: of the passes' times, in seconds.
std::vector<std::optional<std::size_t>> choose_rows(std::span<const RowOffer> offers,
                                                    const RowCurve& curve, const RowBounds& bounds);

}  // namespace outrider

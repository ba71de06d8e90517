// How much of a round is of use: by the answer's end and by what the target takes.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/base/types.h"
#include "common/drafting/drafter.h"
#include "common/protocol/messages.h"

namespace outrider {

struct RoundBounds {
  Position end_position = 0;     // of prompt and answer
  std::int32_t token_bound = 0;  // tokens that may be sent before Opened names the vocabulary
  Limits limits = {};            // the protocol's own until Opened names the target's

  // Positions that drafted tokens can fill when the text ends at `end`: a verdict ends with one
  // token more.
  Position tokens_to_end(Position end) const { return end_position - end - 1; }

  // As deep as a node can be of use to the next pass.
  Position useful_depth(Position end) const {
    return std::min({tokens_to_end(end), static_cast<Position>(limits.max_rows) - 1,
                     static_cast<Position>(limits.max_nodes)});
  }

  RoundShape useful(RoundShape round, Position end) const {
    const auto depth = static_cast<std::size_t>(std::max<Position>(0, useful_depth(end)));
    round.length = std::min(round.length, depth);
    return round;
  }

  PlanLimits plan_limits(Position end) const {
    return {.max_nodes = static_cast<std::size_t>(std::min(limits.max_nodes, limits.max_rows - 1)),
            .max_depth = std::max<Position>(0, useful_depth(end)),
            .token_bound = vocabulary()};
  }

  // Tokens below this may be sent.
  std::int32_t vocabulary() const {
    return limits.vocab_size <= 0 ? token_bound : std::min(token_bound, limits.vocab_size);
  }
};

}  // namespace outrider

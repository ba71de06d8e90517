// The next thing to do for a verifier that waits: a step of the draft, the round, be it a chain or
// a tree, or to wait for the step that is out.
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/drafting/drafter.h"
#include "edge_client/speculation/round_bounds.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

struct RoundMove {
  std::optional<DraftStep> step = {};
  std::optional<Grow> round = {};  // without nodes: as far as the draft could go
};

RoundMove next_move(SpeculationStrategy& strategy, Drafter& drafter, const RoundBounds& bounds);

}  // namespace outrider

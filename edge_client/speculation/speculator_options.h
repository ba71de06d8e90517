// What a speculator is told (speculator.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/types.h"
#include "edge_client/speculation/learnt_pair.h"
#include "edge_client/speculation/strategies.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

// How one verifier is speculated with.
struct SpeculationWay {
  Strategy strategy = Strategy::kAr;
  StrategyOptions rounds;
};

struct SpeculatorOptions {
  Strategy strategy = Strategy::kAr;  // with the verifier that the answer begins with
  StrategyOptions rounds;
  std::optional<SpeculationWay> other = {};  // with the other one; nothing: as with the first
  double uplink_budget = 0;      // mirror: bytes/s for what may turn out unused; 0: as measured
  std::int32_t token_bound = 0;  // tokens that may be sent before Opened names the vocabulary
  Position end_position = 0;     // of prompt and answer
  LearntPairs learnt = {};       // by targets' fingerprints, of this draft on this device
};

}  // namespace outrider

// How an answer uses what earlier ones have taught, and what it teaches later ones.
//
// Thread rule: a value, owned by the speculator. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "edge_client/metrics/session_observer.h"
#include "edge_client/speculation/learnt_pair.h"
#include "edge_client/speculation/strategy.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

class AnswerLearning final {
 public:
  // The first target of the answer has opened. Tells strategy and timings what is known of it, and
  // observers that it begins without speculation if so.
  void begin(const LearntPairs& known, const std::string& fingerprint,
             SpeculationStrategy& strategy, Timings& timings, const ObserverList& observers);

  // Why the answer began without speculation; nothing if it began with it.
  const std::optional<std::string>& begins_without() const { return begins_without_; }
  // What this answer and those before it have taught of the target; nothing if too little was seen.
  std::optional<LearntPair> learnt(const SpeculationStrategy& strategy,
                                   const Timings& timings) const;

 private:
  std::optional<LearntPair> began_with_;
  std::optional<std::string> begins_without_;
};

}  // namespace outrider

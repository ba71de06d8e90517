// What is known of the one of two verifiers that an answer does not use at the moment: how it is
// best speculated with, and its times. A server and this device differ in both.
//
// Thread rule: a value, owned by the speculator. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "edge_client/speculation/answer_learning.h"
#include "edge_client/speculation/speculator_options.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

class OtherVerifier final {
 public:
  // The answer goes on with this one, and what it knew of its own is kept here. drafts: false if it
  // drafts no more.
  void exchange(std::unique_ptr<SpeculationStrategy>& strategy, Timings& timings,
                const SpeculatorOptions& options, bool drafts);

  // What the answer has taught of the verifier that it began with; the arguments are of the one in
  // use.
  std::optional<LearntPair> learnt(const AnswerLearning& learning,
                                   const SpeculationStrategy& strategy,
                                   const Timings& timings) const {
    return is_first_ ? learning.learnt(*strategy_, timings_) : learning.learnt(strategy, timings);
  }

 private:
  std::unique_ptr<SpeculationStrategy> strategy_;  // null: it was never used
  Timings timings_;
  bool is_first_ = false;
};

}  // namespace outrider

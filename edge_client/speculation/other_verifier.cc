// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/other_verifier.h"

#include <utility>

namespace outrider {

void OtherVerifier::exchange(std::unique_ptr<SpeculationStrategy>& strategy, Timings& timings,
                             const SpeculatorOptions& options, bool drafts) {
  if (strategy_ == nullptr || !drafts) {
    SpeculationWay way{options.strategy, options.rounds};
    way.rounds.memory = nullptr;  // of the verifier that the answer began with
    if (options.other) way = *options.other;
    strategy_ = make_strategy(drafts ? way.strategy : Strategy::kAr, way.rounds);
  }
  std::swap(strategy_, strategy);
  std::swap(timings_, timings);
  timings.draft_step = timings_.draft_step;  // the draft is the same
  is_first_ = !is_first_;
}

}  // namespace outrider

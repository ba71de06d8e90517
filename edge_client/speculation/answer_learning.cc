// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/answer_learning.h"

namespace outrider {

void AnswerLearning::begin(const LearntPairs& known, const std::string& fingerprint,
                           SpeculationStrategy& strategy, Timings& timings,
                           const ObserverList& observers) {
  if (began_with_) return;
  const auto found = known.find(fingerprint);
  began_with_ = found == known.end() ? LearntPair() : found->second;
  if (began_with_->answers == 0) return;
  if (began_with_->step_ms > 0 && !timings.draft_step.known()) {
    timings.draft_step.add(1, from_ms(began_with_->step_ms));
  }
  strategy.begin_with(*began_with_);
  if (strategy.speculates()) return;
  begins_without_ = "it did not pay when the last answer ended";
  observers.notify(&SessionObserver::on_plan_changed,
                   PlanChange{.speculates = false, .reason = *begins_without_});
}

std::optional<LearntPair> AnswerLearning::learnt(const SpeculationStrategy& strategy,
                                                 const Timings& timings) const {
  LearntPair learnt = began_with_.value_or(LearntPair());
  if (!strategy.teach(learnt)) return std::nullopt;
  ++learnt.answers;
  if (timings.draft_step.known()) learnt.step_ms = to_ms(timings.draft_step.of(1));
  learnt.rtt_ms = to_ms(timings.round_trip());
  return learnt;
}

}  // namespace outrider

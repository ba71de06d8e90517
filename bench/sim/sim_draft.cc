// SPDX-License-Identifier: Apache-2.0
#include "bench/sim/sim_draft.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// As in PacedModel.
constexpr std::int32_t kPartsOfLayer = 8;

}  // namespace

SimDraft::SimDraft(Simulation& simulation, std::unique_ptr<DraftEngine> engine,
                   std::int32_t num_layers, StepTime takes, Done done, Share share)
    : simulation_(simulation),
      engine_(std::move(engine)),
      num_layers_(std::max(num_layers, 1)),
      takes_(std::move(takes)),
      done_(std::move(done)),
      share_(std::move(share)) {}

void SimDraft::submit(DraftStep step) {
  OUTRIDER_CHECK(out_ == nullptr);
  const Duration takes = takes_(step.catch_up.size() + step.grow.size());
  out_.reset(new StepOut{std::move(step), simulation_.now(), takes});
  ++number_;
  if (takes != Duration::max()) finish_at(out_->began + takes);
}

// The part of a layer that runs is finished. A catch-up always runs to its end.
void SimDraft::abandon() {
  OUTRIDER_CHECK(out_ != nullptr);
  out_->abandoned = true;
  if (out_->takes == Duration::max() || !out_->step.catch_up.empty()) return;
  const Duration part = std::max(out_->takes / (kPartsOfLayer * num_layers_), Duration{1});
  const auto parts = (simulation_.now() - out_->began) / part + 1;
  finish_at(std::min(out_->began + part * parts, out_->began + out_->takes));
}

void SimDraft::finish_at(TimePoint when) {
  simulation_.at(when, [this, number = number_] {
    if (out_ == nullptr || number != number_) return;
    if (const Duration left = missing(); left > Duration{0})
      return finish_at(simulation_.now() + left);
    finish();
  });
}

// What the step had of the processor, so far.
Duration SimDraft::computed() const {
  const TimePoint now = simulation_.now();
  return share_ ? share_(out_->began, now) : now - out_->began;
}

// What the target's computing took from the step.
Duration SimDraft::missing() const {
  return out_->abandoned ? Duration{0} : out_->takes - computed();
}

void SimDraft::finish() {
  const Duration computed = this->computed();
  const std::unique_ptr<StepOut> out = std::move(out_);
  Result<DraftStepDone> done = engine_->run(out->step, &out->abandoned);
  if (done.ok()) done->compute = computed;
  done_(std::move(done));
}

void SimDraft::fail(const Status& status) {
  out_.reset();
  done_(status);
}

}  // namespace outrider

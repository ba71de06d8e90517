// The draft model's executor in a simulation: the draft engine, with events in place of the draft
// worker's thread. A step runs as it ends, so that one abandoned before is abandoned in the engine.
//
// Thread rule: one thread. Ownership: simulation and the engine's model outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "bench/sim/simulation.h"
#include "common/drafting/draft_engine.h"

namespace outrider {

class SimDraft final {
 public:
  // A step of so many rows takes that long; Duration::max(): until finish().
  using StepTime = std::function<Duration(std::size_t rows)>;
  // How much of the time between these the draft had its processor for itself.
  using Share = std::function<Duration(TimePoint from, TimePoint to)>;
  using Done = std::function<void(Result<DraftStepDone>)>;

  // num_layers: of the draft, which leaves an abandoned pass within a part of a layer.
  SimDraft(Simulation& simulation, std::unique_ptr<DraftEngine> engine, std::int32_t num_layers,
           StepTime takes, Done done, Share share = {});

  // Only when no step is out.
  void submit(DraftStep step);
  // Nobody wants the rows of the step that is out.
  void abandon();

  // The step that is out; null: none.
  const DraftStep* step() const { return out_ ? &out_->step : nullptr; }
  bool abandoned() const { return out_ && out_->abandoned; }
  // Ends the step that is out now: as its model does, or with this error.
  void finish();
  void fail(const Status& status);

 private:
  struct StepOut {
    DraftStep step;
    TimePoint began;
    Duration takes;
    std::atomic<bool> abandoned = false;
  };

  void finish_at(TimePoint when);
  Duration computed() const;
  Duration missing() const;

  Simulation& simulation_;
  const std::unique_ptr<DraftEngine> engine_;
  const std::int32_t num_layers_;
  const StepTime takes_;
  const Done done_;
  const Share share_;  // empty: all of it
  std::unique_ptr<StepOut> out_;
  std::uint64_t number_ = 0;  // of the step that is out, or was
};

}  // namespace outrider

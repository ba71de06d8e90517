// The event loop of an edge in a simulation: decoding session, drafter and draft executor over any
// verifier, with events instead of the Runner's threads. This and the Runner are the only loops
// that drive a DecodingSession.
//
// Thread rule: one thread. Ownership: simulation, verifier, draft, text and observer outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/decoding/drafting/draft_engine.h"
#include "common/decoding/drafting/drafter.h"
#include "common/engine/model/model.h"
#include "common/serving/conversation/answer_text.h"
#include "edge_client/failover/failover_session.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/events.h"
#include "edge_client/session/provisional_text.h"
#include "sim/activity.h"
#include "sim/simulation.h"

namespace outrider {

// The draft model's executor in a simulation: the draft engine, with events instead of the draft
// worker's thread. A step is computed when it ends, so a step abandoned before is abandoned in the
// engine.
class SimDraft final {
 public:
  // The time of a step by its rows; Duration::max(): until finish().
  using StepTime = std::function<Duration(std::size_t rows)>;
  // The share of this time in which the draft had its processor alone.
  using Share = std::function<Duration(TimePoint from, TimePoint to)>;
  using Done = std::function<void(Result<DraftStepDone>)>;

  // num_layers: of the draft; an abandoned pass ends within a part of a layer.
  SimDraft(Simulation& simulation, std::unique_ptr<DraftEngine> engine, std::int32_t num_layers,
           StepTime takes, Done done, Share share = {});

  // Only if no step is running.
  void submit(DraftStep step);
  // The rows of the running step are no longer needed.
  void abandon();

  // The running step; null: none.
  const DraftStep* step() const { return out_ ? &out_->step : nullptr; }
  bool abandoned() const { return out_ && out_->abandoned; }
  // When steps were computed, the running one until now.
  std::vector<BusySpan> busy() const;
  // Ends the running step now: with its model's result, or with this error.
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
  std::uint64_t number_ = 0;  // of the current step, or of the last one
  std::vector<BusySpan> done_steps_;
};

// Observes the loop, for a test or a figure.
class SimEdgeObserver {
 public:
  virtual ~SimEdgeObserver() = default;
  // The session handles this event next; a verifier's message may be changed.
  virtual void on_event(SessionEvent&) {}
  // The action is performed next; a message may be changed.
  virtual void on_action(SessionAction&) {}
  // The event's actions have been performed.
  virtual void on_handled() {}
};

struct SimEdgeSetup {
  std::vector<TokenId> prompt;
  DecodingOptions decoding;
  DrafterOptions drafter;
  SimDraft::StepTime step_takes;
  SimDraft::Share draft_share = {};
  // Failover between the verifiers' two routes; nothing: there is one route.
  std::optional<FailoverSetup> failover = {};
  // The time after the beginning at which the text is given unverified; nothing if it is not.
  std::optional<Duration> due = {};
};

class SimEdge final {
 public:
  SimEdge(Simulation& simulation, VerifierRoutes routes, Model& draft, AnswerText& text,
          SimEdgeSetup setup, SimEdgeObserver& observer);

  void begin();
  // An event from outside: of the verifier or the user.
  void handle(SessionEvent event);

  bool done() const { return finish_.has_value(); }
  const Finish& finish() const { return *finish_; }
  const DecodingSession& session() const { return session_; }
  // Null if it has one route.
  const FailoverSession* failover() const { return failover_.get(); }
  // Null if nothing is due.
  const DeadlineDecorator* deadline() const { return deadline_.get(); }
  const Drafter& drafter() const { return drafter_; }
  SimDraft& draft() { return draft_; }
  const SimDraft& draft() const { return draft_; }
  // The epoch of the last stream started; 0 if there is none yet.
  std::uint32_t epoch() const { return epoch_; }

 private:
  AnswerSession& inner();  // below what is due
  void perform(SessionActions actions);
  void on(const Connect& connect);
  void on(Send& send) { routes_.at(route_).send(std::move(send.message)); }
  void on(StandBy& standby);
  void on(const ProbeLink& link);
  void on(RunDraftStep& run) { draft_.submit(std::move(run.step)); }
  void on(const AbandonDraftStep&) { draft_.abandon(); }
  void on(const Emit&) {}
  void on(const Say&) {}
  void on(const Provisional&) {}
  void on(const PrefillProgress&) {}
  void on(const Finish& finish) { finish_ = finish; }
  void set_timer();

  Simulation& simulation_;
  const VerifierRoutes routes_;
  SimEdgeObserver& observer_;
  Drafter drafter_;
  SimDraft draft_;
  DecodingSession session_;
  std::optional<FailoverMemory> memory_;
  std::unique_ptr<FailoverSession> failover_;
  std::unique_ptr<DeadlineDecorator> deadline_;
  AnswerSession& brain_;
  Route route_ = Route::kOnline;
  std::uint32_t epoch_ = 0;
  std::optional<Finish> finish_;
  TimePoint tick_at_ = TimePoint::max();
};

}  // namespace outrider

// The event loop of the edge's brain in a simulation: decoding session, drafter and draft executor
// over any verifier, with events in place of the Runner's threads. This and the Runner are the only
// loops that drive a DecodingSession.
//
// Thread rule: one thread. Ownership: simulation, verifier, draft, text and observer outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bench/sim/sim_draft.h"
#include "bench/sim/simulation.h"
#include "common/conversation/answer_text.h"
#include "common/drafting/drafter.h"
#include "common/model/model.h"
#include "edge_client/failover/failover_session.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/verifier_routes.h"

namespace outrider {

// What a test or a figure wants to see of the loop.
class SimEdgeObserver {
 public:
  virtual ~SimEdgeObserver() = default;
  // The session handles this event next; a message of the verifier may be changed.
  virtual void on_event(SessionEvent&) {}
  // The action is performed next; a message may be changed.
  virtual void on_action(SessionAction&) {}
  // The event's actions are performed.
  virtual void on_handled() {}
};

struct SimEdgeSetup {
  std::vector<TokenId> prompt;
  DecodingOptions decoding;
  DrafterOptions drafter;
  SimDraft::StepTime step_takes;
  SimDraft::Share draft_share = {};
  // Between the two routes of its verifiers; nothing: there is one.
  std::optional<FailoverOptions> failover = {};
};

class SimEdge final {
 public:
  SimEdge(Simulation& simulation, VerifierRoutes routes, Model& draft, AnswerText& text,
          SimEdgeSetup setup, SimEdgeObserver& observer);

  void begin();
  // An event from outside: of the verifier's, the user's.
  void handle(SessionEvent event);

  bool done() const { return finish_.has_value(); }
  const Finish& finish() const { return *finish_; }
  const DecodingSession& session() const { return session_; }
  // Null: it has one route.
  const FailoverSession* failover() const { return failover_.get(); }
  const Drafter& drafter() const { return drafter_; }
  SimDraft& draft() { return draft_; }
  // Of the last stream begun; 0: none yet.
  std::uint32_t epoch() const { return epoch_; }

 private:
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
  AnswerBrain& brain_;
  Route route_ = Route::kOnline;
  std::uint32_t epoch_ = 0;
  std::optional<Finish> finish_;
  TimePoint tick_at_ = TimePoint::max();
};

}  // namespace outrider

// Runs a decoding session: events from the verifier, the draft worker and the user meet in one
// queue, and the thread that called run() passes them to the session and performs its actions. The
// only place where session, verifier, draft model and clock come together.
//
//   verifiers' threads --+
//   draft worker --------+--> queue --> run(): session.handle() --> actions
//   std::stop_token -----+
//
// Thread rule: run() from one thread at a time; a stop may be requested from any. The listener is
// called on the thread of run().
// Bounds: the queue holds kMaxEvents; a verifier that floods it (no honest one can: it pauses
// `run_ahead` tokens past what was acknowledged) loses its stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <stop_token>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/engine/sampling/sampling.h"
#include "edge_client/session/events.h"
#include "edge_client/shell/draft_worker.h"

namespace outrider {

// Receives the parts of an answer that the user sees.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  virtual void on_emit(const Emit& emit) = 0;
  virtual void on_say(const Say& say) = 0;
  virtual void on_provisional(const Provisional& /*guess*/) {}
  virtual void on_prefill(const PrefillProgress& progress) = 0;
  // For observers of the link: a stream begins; an event, before the session gets it.
  virtual void on_connect(const Connect& /*connect*/) {}
  virtual void on_event(const SessionEvent& /*event*/) {}
};

class Runner final {
 public:
  static constexpr std::size_t kMaxEvents = 1 << 14;

  // worker: nullptr without a draft model. All must outlive the runner. The end of a draft step is
  // reported to the runner that began it only, so a draft serves one runner in its life.
  Runner(VerifierRoutes routes, DraftWorker* worker, const Clock& clock, AnswerListener& listener);
  // Waits for the draft step that runs, if any.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Runs one answer to its end. Blocks. choice: the session's own, which the draft's guesses follow
  // too. A stop that was requested, before the call or during it, ends the answer as cancelled.
  Finish run(AnswerSession& session, const TokenChoice& choice, const std::stop_token& stop = {});

 private:
  void post(SessionEvent event);
  void finish_draft_step(Result<DraftStepDone> result);
  void forget_old_events();
  std::optional<SessionEvent> wait(TimePoint until);
  void perform(SessionActions actions);
  void stop_routes();
  std::optional<SessionEvent> forbidden();
  void on(const Connect& connect);
  void on(Send& send);
  void on(RunDraftStep& run);
  void on(const AbandonDraftStep&) { worker_->abandon(); }
  void on(const Emit& emit) { listener_.on_emit(emit); }
  void on(const Say& say) { listener_.on_say(say); }
  void on(const Provisional& guess) { listener_.on_provisional(guess); }
  void on(StandBy& standby);
  void on(const ProbeLink& link);
  void on(const PrefillProgress& progress) { listener_.on_prefill(progress); }
  void on(const Finish& finish) { finish_ = finish; }

  const VerifierRoutes routes_;
  DraftWorker* const worker_;
  const Clock& clock_;
  AnswerListener& listener_;

  // Thread of run() only.
  TokenChoice choice_;
  Route route_ = Route::kOnline;  // of the last Connect
  bool forbidden_ = false;        // the session knows
  std::optional<Finish> finish_;

  Mutex mu_;
  CondVar wake_;
  std::deque<SessionEvent> events_ OUTRIDER_GUARDED_BY(mu_);
  bool step_is_out_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider

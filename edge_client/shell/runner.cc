// SPDX-License-Identifier: Apache-2.0
#include "edge_client/shell/runner.h"

#include <utility>

namespace outrider {

Runner::Runner(Verifier& verifier, DraftWorker* worker, const Clock& clock,
               AnswerListener& listener)
    : verifier_(verifier), worker_(worker), clock_(clock), listener_(listener) {}

Runner::~Runner() {
  verifier_.stop();
  const MutexLock lock(mu_);
  while (step_is_out_) wake_.wait(mu_);
}

Finish Runner::run(DecodingSession& session, const Guessing& guessing,
                   const std::stop_token& stop) {
  guessing_ = guessing;
  finish_.reset();
  forget_old_events();
  const std::stop_callback cancel(stop, [this] { post(CancelRequested{}); });
  perform(session.start(clock_.now()));
  while (!finish_) {
    const std::optional<SessionEvent> event = wait(session.next_tick());
    perform(session.handle(event ? *event : SessionEvent(Tick{}), clock_.now()));
  }
  verifier_.stop();
  return *finish_;
}

// Of the answer before: only a draft step's end still matters, to the drafter.
void Runner::forget_old_events() {
  const MutexLock lock(mu_);
  std::erase_if(events_, [](const SessionEvent& event) {
    return !std::holds_alternative<DraftStepFinished>(event);
  });
}

void Runner::post(SessionEvent event) {
  {
    const MutexLock lock(mu_);
    if (events_.size() >= kMaxEvents) {
      auto* flood = std::get_if<FromVerifier>(&event);
      if (flood == nullptr || events_.size() > kMaxEvents) return;
      flood->event = StreamEnded{resource_exhausted("the server sends faster than it may")};
    }
    events_.push_back(std::move(event));
  }
  wake_.notify_one();
}

std::optional<SessionEvent> Runner::wait(TimePoint until) {
  const MutexLock lock(mu_);
  while (events_.empty()) {
    if (until == TimePoint::max()) {
      wake_.wait(mu_);
    } else if (wake_.wait_until(mu_, until) == std::cv_status::timeout && events_.empty()) {
      return std::nullopt;
    }
  }
  SessionEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Runner::perform(SessionActions actions) {
  for (SessionAction& action : actions) {
    std::visit([this](auto& a) { on(a); }, action);
  }
}

void Runner::on(const Connect& connect) {
  verifier_.stop();
  verifier_.start(connect.epoch, [this](FromVerifier event) { post(std::move(event)); });
}

void Runner::on(Send& send) {
  verifier_.send(std::move(send.message));
}

void Runner::on(RunDraftStep& run) {
  OUTRIDER_CHECK(worker_ != nullptr);
  {
    const MutexLock lock(mu_);
    step_is_out_ = true;
  }
  worker_->submit(
      {.step = std::move(run.step),
       .sampling = guessing_.sampling,
       .seed = guessing_.seed,
       .done = [this](Result<DraftStepDone> result) { finish_draft_step(std::move(result)); }});
}

void Runner::finish_draft_step(Result<DraftStepDone> result) {
  const MutexLock lock(mu_);
  events_.push_back(DraftStepFinished{std::move(result)});
  step_is_out_ = false;
  wake_.notify_all();  // under the lock: the destructor may be waiting
}

}  // namespace outrider

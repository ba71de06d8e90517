// SPDX-License-Identifier: Apache-2.0
#include "edge_client/shell/runner.h"

#include <utility>

namespace outrider {

Runner::Runner(VerifierRoutes routes, DraftWorker* worker, const Clock& clock,
               AnswerListener& listener)
    : routes_(std::move(routes)), worker_(worker), clock_(clock), listener_(listener) {}

Runner::~Runner() {
  stop_routes();
  const MutexLock lock(mu_);
  while (step_is_out_) wake_.wait(mu_);
}

Finish Runner::run(AnswerSession& session, const TokenChoice& choice, const std::stop_token& stop) {
  choice_ = choice;
  finish_.reset();
  forbidden_ = false;
  forget_old_events();
  const std::stop_callback cancel(stop, [this] { post(CancelRequested{}); });
  perform(session.start(clock_.now()));
  while (!finish_) {
    const std::optional<SessionEvent> event = wait(session.next_tick());
    if (event) listener_.on_event(*event);
    perform(session.handle(event ? *event : SessionEvent(Tick{}), clock_.now()));
    if (const std::optional<SessionEvent> told = forbidden(); told && !finish_) {
      perform(session.handle(*told, clock_.now()));
    }
  }
  stop_routes();
  return *finish_;
}

void Runner::stop_routes() {
  if (routes_.probe != nullptr) routes_.probe->stop();
  routes_.online->stop();
  routes_.offline->stop();
}

std::optional<SessionEvent> Runner::forbidden() {
  if (forbidden_ || !routes_.forbidden) return std::nullopt;
  std::optional<std::string> why = routes_.forbidden();
  if (!why) return std::nullopt;
  forbidden_ = true;
  return OnlineForbidden{*std::move(why)};
}

// Drops the events of the answer before: only a draft step's end still matters, to the drafter.
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
  routes_.at(route_).stop();
  if (connect.level) routes_.use_level(*connect.level);
  route_ = connect.route;
  listener_.on_connect(connect);
  routes_.at(route_).start(connect.epoch, [this](FromVerifier event) { post(std::move(event)); });
}

void Runner::on(Send& send) {
  routes_.at(route_).send(std::move(send.message));
}

void Runner::on(StandBy& standby) {
  routes_.offline->start(standby.epoch, [this](FromVerifier event) { post(std::move(event)); });
  routes_.offline->send(std::move(standby.open));
}

void Runner::on(const ProbeLink& link) {
  OUTRIDER_CHECK(routes_.probe != nullptr);
  routes_.probe->probe(link.patience, [this](LinkProbed probed) { post(probed); });
}

void Runner::on(RunDraftStep& run) {
  OUTRIDER_CHECK(worker_ != nullptr);
  {
    const MutexLock lock(mu_);
    step_is_out_ = true;
  }
  worker_->submit(
      {.step = std::move(run.step),
       .choice = choice_,
       .done = [this](Result<DraftStepDone> result) { finish_draft_step(std::move(result)); }});
}

void Runner::finish_draft_step(Result<DraftStepDone> result) {
  const MutexLock lock(mu_);
  events_.push_back(DraftStepFinished{std::move(result)});
  step_is_out_ = false;
  wake_.notify_all();  // under the lock: the destructor may be waiting
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_edge.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// The same as in PacedModel.
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

// The processor time that the step got so far.
Duration SimDraft::computed() const {
  const TimePoint now = simulation_.now();
  return share_ ? share_(out_->began, now) : now - out_->began;
}

// The time that the target's computing took from the step.
Duration SimDraft::missing() const {
  return out_->abandoned ? Duration{0} : out_->takes - computed();
}

void SimDraft::finish() {
  const Duration computed = this->computed();
  const std::unique_ptr<StepOut> out = std::move(out_);
  done_steps_.push_back({out->began, simulation_.now()});
  Result<DraftStepDone> done = engine_->run(out->step, &out->abandoned);
  if (done.ok()) done->compute = computed;
  done_(std::move(done));
}

std::vector<BusySpan> SimDraft::busy() const {
  std::vector<BusySpan> steps = done_steps_;
  if (out_ != nullptr) steps.push_back({out_->began, simulation_.now()});
  return steps;
}

void SimDraft::fail(const Status& status) {
  out_.reset();
  done_(status);
}

namespace {

// The engine is as small as possible, so that a leaked slot is noticed.
std::unique_ptr<DraftEngine> make_engine(Simulation& simulation, Model& draft,
                                         const SimEdgeSetup& setup) {
  const auto capacity = static_cast<std::int32_t>(setup.drafter.max_positions +
                                                  static_cast<Position>(setup.drafter.max_nodes));
  Result<std::unique_ptr<DraftEngine>> engine =
      DraftEngine::create(draft, simulation.clock(), capacity);
  OUTRIDER_CHECK(engine.ok());
  TokenChoice choice = setup.decoding.choice;
  choice.answer_begin = static_cast<Position>(setup.prompt.size());
  choice.stop_ids = setup.decoding.stop_ids;
  (*engine)->set_choice(choice);
  return *std::move(engine);
}

}  // namespace

SimEdge::SimEdge(Simulation& simulation, VerifierRoutes routes, Model& draft, AnswerText& text,
                 SimEdgeSetup setup, SimEdgeObserver& observer)
    : simulation_(simulation),
      routes_(std::move(routes)),
      observer_(observer),
      drafter_(setup.drafter),
      draft_(
          simulation, make_engine(simulation, draft, setup), draft.info().num_layers,
          std::move(setup.step_takes),
          [this](Result<DraftStepDone> done) { handle(DraftStepFinished{std::move(done)}); },
          std::move(setup.draft_share)),
      session_(std::move(setup.decoding), std::move(setup.prompt), drafter_, text),
      memory_(setup.failover ? std::optional<FailoverMemory>(setup.failover->options.failback_after)
                             : std::nullopt),
      failover_(memory_ ? std::make_unique<FailoverSession>(*setup.failover, session_, *memory_)
                        : nullptr),
      deadline_(setup.due ? std::make_unique<DeadlineDecorator>(inner(), session_, drafter_, text,
                                                                simulation.now() + *setup.due)
                          : nullptr),
      brain_(deadline_ != nullptr ? *deadline_ : inner()) {}

AnswerSession& SimEdge::inner() {
  return failover_ != nullptr ? static_cast<AnswerSession&>(*failover_) : session_;
}

void SimEdge::begin() {
  perform(brain_.start(simulation_.now()));
}

void SimEdge::handle(SessionEvent event) {
  if (session_.finished()) return;
  observer_.on_event(event);
  perform(brain_.handle(event, simulation_.now()));
  observer_.on_handled();
}

void SimEdge::perform(SessionActions actions) {
  for (SessionAction& action : actions) {
    observer_.on_action(action);
    std::visit([this](auto& a) { on(a); }, action);
  }
  if (!finish_) return set_timer();
  routes_.online->stop();
  routes_.offline->stop();
  if (routes_.probe != nullptr) routes_.probe->stop();
}

void SimEdge::on(const Connect& connect) {
  epoch_ = connect.epoch;
  routes_.at(route_).stop();
  route_ = connect.route;
  routes_.at(route_).start(connect.epoch, [this](FromVerifier event) { handle(std::move(event)); });
}

void SimEdge::on(StandBy& standby) {
  routes_.offline->start(standby.epoch, [this](FromVerifier event) { handle(std::move(event)); });
  routes_.offline->send(std::move(standby.open));
}

void SimEdge::on(const ProbeLink& link) {
  routes_.probe->probe(link.patience, [this](LinkProbed probed) { handle(probed); });
}

void SimEdge::set_timer() {
  const TimePoint next = brain_.next_tick();
  if (next == tick_at_ || next == TimePoint::max()) return;
  tick_at_ = next;
  simulation_.at(next, [this, next] {
    if (tick_at_ != next) return;
    tick_at_ = TimePoint::max();
    handle(Tick{});
  });
}

}  // namespace outrider

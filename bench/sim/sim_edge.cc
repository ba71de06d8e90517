// SPDX-License-Identifier: Apache-2.0
#include "bench/sim/sim_edge.h"

#include <utility>

namespace outrider {
namespace {

// As small as it may be, so that a slot too much is noticed.
std::unique_ptr<DraftEngine> make_engine(Simulation& simulation, Model& draft,
                                         const SimEdgeSetup& setup) {
  const auto capacity = static_cast<std::int32_t>(setup.drafter.max_positions +
                                                  static_cast<Position>(setup.drafter.max_nodes));
  Result<std::unique_ptr<DraftEngine>> engine =
      DraftEngine::create(draft, simulation.clock(), capacity);
  OUTRIDER_CHECK(engine.ok());
  (*engine)->set_sampling(setup.decoding.sampling, setup.decoding.seed);
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
      memory_(setup.failover ? std::optional<FailoverMemory>(setup.failover->handback_after)
                             : std::nullopt),
      failover_(memory_ ? std::make_unique<FailoverSession>(*setup.failover, session_, *memory_)
                        : nullptr),
      brain_(failover_ != nullptr ? static_cast<AnswerBrain&>(*failover_) : session_) {}

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

// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_edge.h"

#include <algorithm>
#include <span>
#include <utility>

namespace outrider {

SimEdge::SimEdge(Simulation& simulation, SimLink& link, const ToyModel& target, Plan plan)
    : simulation_(simulation),
      link_(link),
      plan_(std::move(plan)),
      draft_(target, plan_.strays, plan_.draft_context),
      forger_(simulation.random(), plan_.exits) {
  const DecodingOptions& decoding = plan_.decoding;
  std::vector<TokenId> stops = decoding.stop_ids;
  if (plan_.stop_after) stops.push_back(*plan_.stop_after);
  const std::vector<TokenId> whole =
      target.decode(plan_.prompt, decoding.end_position, decoding.sampling, decoding.seed, stops);
  expected_.assign(whole.begin() + static_cast<std::ptrdiff_t>(plan_.prompt.size()), whole.end());

  drafter_ = std::make_unique<Drafter>(DrafterOptions{.max_positions = plan_.draft_context,
                                                      .vocab_size = draft_.info().vocab_size,
                                                      .prefill_chunk = plan_.prefill_chunk,
                                                      .workers = plan_.workers,
                                                      .max_nodes = plan_.cache_nodes});
  // As small as it may be, so that a slot too much is noticed.
  engine_ = *DraftEngine::create(
      draft_, simulation_.clock(),
      static_cast<std::int32_t>(plan_.draft_context + static_cast<Position>(plan_.cache_nodes)));
  engine_->set_sampling(decoding.sampling, decoding.seed);
  session_ = std::make_unique<DecodingSession>(decoding, plan_.prompt, *drafter_, *this);
}

void SimEdge::begin() {
  take(session_->start(simulation_.now()));
}

void SimEdge::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what + " (after " + ReferenceModel::spell(shown_) + ")";
}

AnswerText::Update SimEdge::push(TokenId token) {
  return {.text = {}, .stopped = token == plan_.stop_after};
}

void SimEdge::handle(const SessionEvent& event) {
  if (session_->finished()) return;
  take(session_->handle(event, simulation_.now()));
  if (session_->finished()) return;
  if (reference_ != nullptr) {
    if (const std::string wrong = reference_->compare(drafter_->tree()); !wrong.empty()) {
      fail("edge's tree: " + wrong);
    }
  }
  if (simulation_.random().chance(plan_.cut)) {
    link_.cut(simulation_.random().between(Duration{0}, from_ms(500)),
              simulation_.random().between(Duration{0}, from_ms(500)));
  }
  if (!cancelled_ && simulation_.random().chance(plan_.cancel)) {
    cancelled_ = true;
    take(session_->handle(CancelRequested{}, simulation_.now()));
  }
}

void SimEdge::take(const SessionActions& actions) {
  for (const SessionAction& action : actions) {
    if (finish_) fail("an action after the Finish");
    std::visit([this](const auto& a) { on(a); }, action);
  }
  const TimePoint next = session_->next_tick();
  if (next == tick_at_ || next == TimePoint::max()) return;
  tick_at_ = next;
  simulation_.at(next, [this, next] {
    if (tick_at_ != next) return;
    tick_at_ = TimePoint::max();
    handle(Tick{});
  });
}

void SimEdge::on(const Connect& connect) {
  link_.stop();
  reference_ = std::make_unique<ReferenceModel>();
  epoch_ = connect.epoch;
  forger_.restart();
  last_server_report_ = 0;
  link_.start(epoch_, [this](FromVerifier event) { hear(std::move(event)); });
}

void SimEdge::hear(FromVerifier event) {
  auto* message = std::get_if<ServerMessage>(&event.event);
  if (message == nullptr) return handle(event);
  if (auto* opened = std::get_if<Opened>(message)) forger_.replace_exits(*opened);
  if (const auto* report = std::get_if<ExitReport>(message)) {
    if (plan_.exits != ExitManner::kServer) return;  // the forger speaks in its place
    if (report->seq != ++last_server_report_) fail("exit reports out of order");
    ++server_reports_;
  }
  handle(event);
  if (const auto* started = std::get_if<Started>(message)) forge_reports(event.epoch, *started);
}

// They come at any time, also after the verdict.
void SimEdge::forge_reports(std::uint32_t epoch, const Started& started) {
  if (session_->finished() || epoch != epoch_) return;
  const MirroredTree& tree = drafter_->tree();
  const auto said = static_cast<std::size_t>(tree.end()) - plan_.prompt.size();
  if (said >= expected_.size()) return;
  const auto rest = std::span<const TokenId>(expected_).subspan(said);
  for (const ExitReport& report : forger_.reports(started, tree, rest, draft_.info().vocab_size)) {
    const Duration after = plan_.report_after
                               ? plan_.report_after(static_cast<std::size_t>(report.exit),
                                                    drafter_->rows_in_flight() + 1)
                               : simulation_.random().between(Duration{0}, from_ms(20));
    simulation_.after(after, [this, epoch, report] {
      handle(FromVerifier{epoch, VerifierEvent(ServerMessage(report))});
    });
  }
}

void SimEdge::on(const Send& send) {
  if (const auto* grow = std::get_if<Grow>(&send.message.body)) {
    reference_->sent(drafter_->tree().text(), *grow);
  }
  if (send.message.acked_position != drafter_->tree().end()) fail("a wrong acknowledgement");
  const bool servers_own = plan_.exits == ExitManner::kServer;
  const std::uint32_t last_report = servers_own ? last_server_report_ : forger_.last_seq();
  if (send.message.acked_reports > last_report) fail("a report acknowledged before it came");
  EdgeMessage message = send.message;
  if (!servers_own) message.acked_reports = 0;  // the server knows nothing of the forger
  link_.send(std::move(message));
}

void SimEdge::on(const RunDraftStep& run) {
  if (step_) fail("two draft steps at once");
  const Duration takes = plan_.step_takes
                             ? plan_.step_takes(run.step.catch_up.size() + run.step.grow.size())
                             : simulation_.random().between(Duration{0}, plan_.slowest_step);
  step_.reset(new StepOut{run.step, simulation_.now(), takes});
  simulation_.after(takes, [this, number = ++step_number_] { finish_step(number); });
}

void SimEdge::on(const AbandonDraftStep&) {
  if (!step_) return fail("abandons a step that is not out");
  step_->abandoned = true;
  const Duration layer = step_->takes / 4;  // the one that runs is finished
  simulation_.after(layer, [this, number = step_number_] { finish_step(number); });
}

void SimEdge::finish_step(std::uint64_t number) {
  if (!step_ || number != step_number_) return;  // it ended early
  const std::unique_ptr<StepOut> step = std::move(step_);
  Result<DraftStepDone> done = engine_->run(step->step, &step->abandoned);
  if (!done.ok()) fail("draft step: " + done.status().to_string());
  if (done.ok()) done->compute = simulation_.now() - step->began;
  handle(DraftStepFinished{std::move(done)});
}

void SimEdge::on(const Emit& emit) {
  for (const Emit::Token& token : emit.tokens) {
    if (token.id >= 0) shown_.push_back(token.id);
  }
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_edge.h"

#include <algorithm>
#include <utility>

namespace outrider {

SimEdge::SimEdge(Simulation& simulation, SimLink& link, const ToyModel& target, Plan plan)
    : simulation_(simulation),
      link_(link),
      plan_(std::move(plan)),
      draft_(target, plan_.strays, plan_.draft_context) {
  const DecodingOptions& decoding = plan_.decoding;
  std::vector<TokenId> stops = decoding.stop_ids;
  if (plan_.stop_after) stops.push_back(*plan_.stop_after);
  const std::vector<TokenId> whole =
      target.decode(plan_.prompt, decoding.end_position, decoding.sampling, decoding.seed, stops);
  expected_.assign(whole.begin() + static_cast<std::ptrdiff_t>(plan_.prompt.size()), whole.end());

  const bool drafts = decoding.strategy == Strategy::kSd;
  drafter_ =
      std::make_unique<Drafter>(DrafterOptions{.max_positions = plan_.draft_context,
                                               .vocab_size = draft_.info().vocab_size,
                                               .prefill_chunk = plan_.prefill_chunk},
                                drafts ? std::make_unique<ChainPolicy>(plan_.gamma) : nullptr);
  engine_ = *DraftEngine::create(draft_, simulation_.clock(), 1100);
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
  link_.start([this, epoch = connect.epoch](VerifierEvent event) {
    handle(FromVerifier{epoch, std::move(event)});
  });
}

void SimEdge::on(const Send& send) {
  if (const auto* grow = std::get_if<Grow>(&send.message.body)) {
    reference_->sent(drafter_->tree().text(), *grow);
  }
  if (send.message.acked_position != drafter_->tree().end()) fail("a wrong acknowledgement");
  link_.send(send.message);
}

void SimEdge::on(const RunDraftStep& run) {
  if (step_is_out_) fail("two draft steps at once");
  step_is_out_ = true;
  const Duration takes = simulation_.random().between(Duration{0}, plan_.slowest_step);
  simulation_.after(takes, [this, step = run.step] {
    step_is_out_ = false;
    Result<DraftStepDone> done = engine_->run(step);
    if (!done.ok()) fail("draft step: " + done.status().to_string());
    handle(DraftStepFinished{std::move(done)});
  });
}

void SimEdge::on(const Emit& emit) {
  for (const Emit::Token& token : emit.tokens) {
    if (token.id >= 0) shown_.push_back(token.id);
  }
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/checked_edge.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace outrider {

CheckedEdge::CheckedEdge(Simulation& simulation, SimLink& link, const ToyModel& target, Plan plan)
    : simulation_(simulation),
      link_(link),
      target_(target),
      plan_(std::move(plan)),
      draft_(target, plan_.strays, plan_.draft_context),
      forger_(simulation.random(), plan_.forged_exits) {
  const DecodingOptions& decoding = plan_.decoding;
  const std::vector<TokenId> whole =
      target.decode(plan_.prompt, decoding.speculation.end_position, decoding.choice.sampling,
                    decoding.choice.seed, decoding.stop_ids, decoding.choice.settings);
  expected_.assign(whole.begin() + static_cast<std::ptrdiff_t>(plan_.prompt.size()), whole.end());
  if (plan_.stop_after) {
    const auto stop = std::ranges::find(expected_, *plan_.stop_after);
    if (stop != expected_.end()) expected_.erase(std::next(stop), expected_.end());
  }
  if (plan_.make_text) {
    text_ = plan_.make_text();
    expect_text(*plan_.make_text());
  }
  SimEdgeSetup setup{.prompt = plan_.prompt,
                     .decoding = decoding,
                     .drafter = {.max_positions = plan_.draft_context,
                                 .vocab_size = draft_.info().vocab_size,
                                 .prefill_chunk = plan_.prefill_chunk,
                                 .workers = plan_.workers,
                                 .max_nodes = plan_.cache_nodes},
                     .step_takes = plan_.step_takes,
                     .failover = plan_.failover};
  const VerifierRoutes routes =
      plan_.failover ? VerifierRoutes(link_, *plan_.offline, *plan_.probe) : VerifierRoutes(link_);
  edge_ = std::make_unique<SimEdge>(simulation_, routes, draft_, *this, std::move(setup), *this);
}

std::vector<TokenLogprobs> CheckedEdge::expected_logprobs() const {
  std::vector<TokenLogprobs> all;
  if (!plan_.decoding.top_logprobs) return all;
  std::vector<TokenId> text = plan_.prompt;
  for (const TokenId token : expected_) {
    all.push_back(logprobs_of(target_.logits_after(text), token, *plan_.decoding.top_logprobs));
    text.push_back(token);
  }
  return all;
}

std::vector<TokenLogprobs> CheckedEdge::expected_prompt_logprobs() const {
  std::vector<TokenLogprobs> all;
  if (!plan_.decoding.prompt_logprobs) return all;
  const std::span<const TokenId> prompt = plan_.prompt;
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const std::vector<float> row = target_.logits_after(prompt.first(i));
    all.push_back(logprobs_of(row, prompt[i], *plan_.decoding.top_logprobs));
  }
  return all;
}

void CheckedEdge::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what + " (after " + ReferenceModel::spell(shown_) + ")";
}

// Cuts the expected answer where the text stops.
void CheckedEdge::expect_text(AnswerText& text) {
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    const Update update = text.push(expected_[i]);
    expected_text_ += update.text;
    if (!update.stopped) continue;
    expected_.resize(i + 1);
    return;
  }
  expected_text_ += text.finish();
}

AnswerText::Update CheckedEdge::push(TokenId token) {
  if (text_ != nullptr) return text_->push(token);
  return {.text = {}, .stopped = token == plan_.stop_after};
}

// --- what the session hears -------------------------------------------------------------------

void CheckedEdge::on_event(SessionEvent& event) {
  if (const auto* step = std::get_if<DraftStepFinished>(&event)) {
    if (!step->result.ok()) fail("draft step: " + step->result.status().to_string());
  }
  auto* heard = std::get_if<FromVerifier>(&event);
  auto* message = heard == nullptr ? nullptr : std::get_if<ServerMessage>(&heard->event);
  if (message != nullptr) hear(heard->epoch, *message);
}

void CheckedEdge::hear(std::uint32_t epoch, ServerMessage& message) {
  if (epoch != edge_->epoch()) return;
  if (const auto* report = std::get_if<ExitReport>(&message)) {
    last_report_ = std::max(last_report_, report->seq);
  }
  if (plan_.forged_exits == ExitManner::kNone) return;
  if (auto* opened = std::get_if<Opened>(&message)) forger_.add_exits(*opened);
  const auto* started = std::get_if<Started>(&message);
  if (started == nullptr) return;
  // After the session has heard it too.
  simulation_.after(Duration{0}, [this, epoch, said = *started] { forge_reports(epoch, said); });
}

// They come at any time, also after the verdict.
void CheckedEdge::forge_reports(std::uint32_t epoch, const Started& started) {
  if (done() || epoch != edge_->epoch()) return;
  const MirroredTree& tree = edge_->drafter().tree();
  const auto said = static_cast<std::size_t>(tree.end()) - plan_.prompt.size();
  if (said >= expected_.size()) return;
  const auto rest = std::span<const TokenId>(expected_).subspan(said);
  for (const ExitReport& report : forger_.reports(started, tree, rest, draft_.info().vocab_size)) {
    simulation_.after(simulation_.random().between(Duration{0}, from_ms(20)),
                      [this, epoch, report] {
                        edge_->handle(FromVerifier{epoch, VerifierEvent(ServerMessage(report))});
                      });
  }
}

void CheckedEdge::on_handled() {
  if (done()) return;
  if (reference_ != nullptr) {
    const std::string wrong = reference_->compare(edge_->drafter().tree());
    if (!wrong.empty()) fail("edge's tree: " + wrong);
  }
  SeededRandom& random = simulation_.random();
  if (cuts_left_ > 0 && random.chance(plan_.cut)) {
    --cuts_left_;
    link_.cut(random.between(Duration{0}, from_ms(500)), random.between(Duration{0}, from_ms(500)));
  }
  if (!cancelled_ && random.chance(plan_.cancel)) {
    cancelled_ = true;
    simulation_.after(Duration{0}, [this] { edge_->handle(CancelRequested{}); });
  }
}

// --- what it does -----------------------------------------------------------------------------

void CheckedEdge::on_action(SessionAction& action) {
  if (done()) fail("an action after the Finish");
  if (std::holds_alternative<Connect>(action)) {
    streams_began_at_.push_back(shown_.size());
    reference_ = std::make_unique<ReferenceModel>();
    forger_.restart();
    last_report_ = acked_reports_ = 0;
  }
  if (auto* send = std::get_if<Send>(&action)) say(send->message);
  if (const auto* emit = std::get_if<Emit>(&action)) {
    for (const Emit::Token& token : emit->tokens) {
      if (token.id >= 0) shown_.push_back(token.id);
      shown_text_ += token.text;
    }
  }
}

void CheckedEdge::say(EdgeMessage& message) {
  const MirroredTree& tree = edge_->drafter().tree();
  if (const auto* grow = std::get_if<Grow>(&message.body)) reference_->sent(tree.text(), *grow);
  if (message.acked_position != tree.end()) fail("a wrong acknowledgement");
  if (message.acked_reports > last_report_) fail("a report acknowledged before it came");
  if (plan_.forged_exits != ExitManner::kNone) {
    message.acked_reports = 0;  // the server knows nothing of the forger
  } else if (message.acked_reports > acked_reports_) {
    acked_reports_ = message.acked_reports;
    ++acknowledged_reports_;
  }
}

}  // namespace outrider

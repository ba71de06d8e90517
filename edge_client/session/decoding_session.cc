// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/decoding_session.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "common/serving/conversation/answer_length.h"
#include "edge_client/metrics/verified_round.h"
#include "edge_client/session/opening.h"

namespace outrider {
namespace {

// The share of the verifier's run-ahead after which an edge that has nothing else to send
// acknowledges: the edge must never be the reason for a pause.
constexpr std::uint32_t kAcksPerRunAhead = 8;

}  // namespace

namespace {

// The choice's settings count from the end of the prompt.
DecodingOptions begun_at(DecodingOptions options, std::size_t prompt_length) {
  options.choice.answer_begin = static_cast<Position>(prompt_length);
  options.choice.stop_ids = options.stop_ids;
  return options;
}

}  // namespace

DecodingSession::DecodingSession(DecodingOptions options, std::vector<TokenId> prompt,
                                 Drafter& drafter, AnswerText& text)
    : options_(begun_at(std::move(options), prompt.size())),
      drafter_(drafter),
      evicted_before_(drafter.nodes().evicted()),
      answer_(text, static_cast<Position>(prompt.size()), options_.speculation.end_position),
      speculator_(options_.speculation, drafter, observers_),
      link_(options_.reconnect.timeout, options_.jitter_seed) {
  OUTRIDER_CHECK(!prompt.empty());
  drafter_.restart(prompt);
  observers_.add(figures_);
  if (options_.observer != nullptr) observers_.add(*options_.observer);
  if (options_.recorder != nullptr) observers_.add(*options_.recorder);
}

SessionActions DecodingSession::start(TimePoint now) {
  now_ = now;
  observers_.notify(&SessionObserver::on_start, static_cast<std::size_t>(answer_.prompt_length()),
                    now);
  if (answer_.end_position() <= answer_.prompt_length()) {
    finish(Ending::kLength, {});
  } else {
    check_draft();  // Open already carries the policy of an answer without a draft
    open_stream();
    turn();
  }
  return std::exchange(actions_, {});
}

SessionActions DecodingSession::handle(const SessionEvent& event, TimePoint now) {
  now_ = now;
  if (!finished()) {
    std::visit([this](const auto& e) { on(e); }, event);
    turn();
  }
  return std::exchange(actions_, {});
}

// --- the loop -----------------------------------------------------------------------------------

// One turn, after every event. Commit: a verdict's tokens become text, and the tree is re-rooted at
// their end. Grow: the draft model's next step. Select: the nodes that the verifier should have
// now. Send them; the draft step runs meanwhile, and its end is the next event.
void DecodingSession::turn() {
  if (verdict_ != nullptr) commit(*std::exchange(verdict_, nullptr));
  if (!link_.linked()) return;
  check_draft();
  using Purpose = Speculator::Purpose;
  for (const Purpose purpose : {Purpose::kNextPass, Purpose::kAhead}) {
    if (purpose == Purpose::kAhead && draft_first_) {
      if (std::optional<DraftStep> step = draft_first_()) add(RunDraftStep{*std::move(step)});
    }
    if (!speculator_.wants(purpose)) continue;
    Speculator::Growth growth = speculator_.grow(purpose);
    if (std::optional<Grow> nodes = speculator_.select(purpose, growth, now_)) {
      send(*std::move(nodes));
    }
    if (growth.step) add(RunDraftStep{*std::move(growth.step)});
  }
  acknowledge();
}

void DecodingSession::commit(const Verdict& verdict) {
  StreamState& stream = link_.stream();
  const VerifiedRound round = verified_round(tree(), *stream.started, verdict.tokens);
  if (scores_prompt()) answer_.take_prompt(std::exchange(stream.prompt_logprobs, {}));
  Answer::Taken taken = answer_.take(verdict.tokens, verdict.logprobs);
  SpeculationActions actions;
  const Speculator::Committed committed = speculator_.commit(verdict, round, now_, actions);
  add(std::exchange(actions, {}));
  add(std::move(taken.emit));
  const VerdictRecord record{.verdict = verdict,
                             .round = round,
                             .answer_tokens = answer_.ids().size(),
                             .round_trip = speculator_.round_trip(),
                             .request_round_trip = committed.request_round_trip,
                             .sent_unused = committed.sent_unused,
                             .evicted = drafter_.nodes().evicted() - evicted_before_};
  observers_.notify(&SessionObserver::on_verdict, record, now_);
  stream.started.reset();
  ++stream.next_pass;
  link_.on_verdict();
  if (verdict.pass_limit > Duration{0}) link_.set_pass_limit(verdict.pass_limit);
  const std::optional<Ending> ending =
      taken.stopped ? Ending::kStopString : answer_.natural_ending(opened_.stop_ids);
  if (!ending) {
    speculator_.on_answer_continues(now_, actions);
    return add(std::move(actions));
  }
  if (*ending == Ending::kStopString) send(Cancel{});
  leave(*ending);
}

void DecodingSession::check_draft() {
  SpeculationActions actions;
  speculator_.check_draft(now_, actions);
  add(std::move(actions));
}

// --- events -------------------------------------------------------------------------------------

void DecodingSession::on(const Tick&) {
  switch (link_.due(now_)) {
    case StreamLink::Due::kNothing:
      return;
    case StreamLink::Due::kOpen:
      return open_stream();
    case StreamLink::Due::kGiveUp:
      return give_up();
    case StreamLink::Due::kFinish:
      return finish(ending_, {});
    case StreamLink::Due::kSilent:
      return lose_link(link_.silent_too_long());
  }
}

void DecodingSession::on(const CancelRequested&) {
  if (link_.phase() == Phase::kLeaving) return;
  if (!link_.linked()) return finish(Ending::kCancelled, {});
  send(Cancel{});
  leave(Ending::kCancelled);
}

void DecodingSession::on(const Reopen& event) {
  if (decided()) return;
  if (event.to_other) {
    speculator_.on_other_verifier(now_);
  } else {
    speculator_.on_stream_closed();
  }
  link_.on_verdict();  // another verifier's failures do not count
  open_stream();
}

void DecodingSession::on(const DraftStepFinished& event) {
  SpeculationActions actions;
  speculator_.on_draft_step(event.result, now_, actions);
  add(std::move(actions));
}

void DecodingSession::on(const FromVerifier& event) {
  // The event belongs to a lost link, perhaps to the last one.
  if (event.epoch != link_.stream().epoch || link_.phase() == Phase::kUnlinked) return;
  if (const auto* ended = std::get_if<StreamEnded>(&event.event)) {
    return on_stream_end(ended->status);
  }
  const auto& message = std::get<ServerMessage>(event.event);
  link_.heard(now_);
  if (link_.phase() == Phase::kOpening && !std::holds_alternative<Opened>(message) &&
      !std::holds_alternative<Notice>(message)) {
    return fail(failed_precondition("the server sent something before Opened"));
  }
  std::visit([this](const auto& m) { on_message(m); }, message);
}

// --- messages of the verifier -------------------------------------------------------------------

void DecodingSession::on_message(const Opened& opened) {
  if (link_.phase() == Phase::kLeaving) return;
  if (link_.phase() != Phase::kOpening) {
    return fail(failed_precondition("the server sent Opened twice on one stream"));
  }
  Status checked = check_opened(opened, opened_, options_);
  if (!checked.ok()) return fail(checked);
  if (ever_opened_) {
    for (Say& line : other_target_lines(opened_, opened)) add(std::move(line));
  }
  opened_ = opened;
  link_.set_pass_limit(opened.limits.pass_limit);
  answer_.limit_to(opened.limits.max_positions);
  const Duration took = link_.on_opened(now_);
  SpeculationActions actions;
  speculator_.on_opened(opened, took, answer_.end_position(), actions);
  add(std::move(actions));
  observers_.notify(&SessionObserver::on_opened, opened, took, ever_opened_);
  const bool again = std::exchange(ever_opened_, true);
  if (again && link_.in_outage()) add(StreamLink::back_line(answer_.ids().size()));
  if (again) return;
  checked = check_prompt_fits(answer_.prompt_length(), opened.limits.max_positions);
  if (!checked.ok()) return fail(checked);
  for (Say& line : target_lines(options_, opened, speculator_)) add(std::move(line));
}

void DecodingSession::on_message(const Progress& progress) {
  if (link_.phase() != Phase::kStreaming || progress.total <= 0) return;
  add(PrefillProgress{progress.done, progress.total});
}

void DecodingSession::on_message(const Started& started) {
  if (link_.phase() != Phase::kStreaming) return;
  if (Status checked = check_started(started, view()); !checked.ok()) return fail(checked);
  link_.stream().started = started;
  speculator_.on_pass_started(started, now_);
}

void DecodingSession::on_message(const Verdict& verdict) {
  if (link_.phase() != Phase::kStreaming) return;
  if (Status checked = check_verdict(verdict, view()); !checked.ok()) return fail(checked);
  verdict_ = &verdict;
}

void DecodingSession::on_message(const PromptLogprobs& scored) {
  if (link_.phase() != Phase::kStreaming) return;
  if (Status checked = check_prompt_logprobs(scored, view()); !checked.ok()) return fail(checked);
  std::vector<TokenLogprobs>& known = link_.stream().prompt_logprobs;
  known.insert(known.end(), scored.logprobs.begin(), scored.logprobs.end());
}

void DecodingSession::on_message(const ExitReport& report) {
  StreamState& stream = link_.stream();
  const std::optional<ExitAdvice> advice = read_report(report, stream.reports_seen, view());
  stream.reports_seen = std::max(stream.reports_seen, report.seq);
  const bool taken = advice && speculator_.on_exit_report(*advice);
  observers_.notify(&SessionObserver::on_exit_report, report, taken, now_);
}

void DecodingSession::on_message(const Usage& usage) {
  observers_.notify(&SessionObserver::on_usage, usage);
  if (link_.phase() == Phase::kLeaving) return;  // the end of the stream follows
  if (usage.reason == FinishReason::kCancelled || usage.reason == FinishReason::kError) {
    return;  // why follows with the end of the stream
  }
  Status checked = check_usage(usage, view());
  if (!checked.ok()) return fail(checked);
  leave(answer_.natural_ending(opened_.stop_ids).value_or(Ending::kLength));
}

void DecodingSession::on_message(const Notice& notice) {
  if (notice.kind == Notice::Kind::kSendPrefix) {
    if (link_.phase() != Phase::kOpening) return;
    // Each answer to it is much longer than the question.
    if (std::exchange(link_.stream().prefix_asked, true)) {
      return fail(failed_precondition("the server asked for the prefix twice on one stream"));
    }
    return send_prefix();
  }
  link_.on_notice(notice);
  if (link_.phase() == Phase::kLeaving) return;
  if (std::optional<Say> line = link_.notice_line(now_)) add(*std::move(line));
}

void DecodingSession::on_stream_end(const Status& status) {
  if (link_.phase() == Phase::kLeaving) return finish(ending_, {});
  if (status.ok()) return lose_link(unavailable("the server closed the stream"));
  if (link_.may_retry(status)) return lose_link(status);
  finish(Ending::kFailed, status);
}

// --- the end ------------------------------------------------------------------------------------

// The answer is decided; the verifier's Usage would complete the figures.
void DecodingSession::leave(Ending ending) {
  link_.leave(now_);
  speculator_.on_stream_closed();
  ending_ = ending;
}

void DecodingSession::fail(const Status& status) {
  if (link_.linked()) send(Cancel{});
  finish(Ending::kFailed, status);
}

void DecodingSession::finish(Ending ending, Status status) {
  link_.finish();
  speculator_.on_stream_closed();
  if (ending != Ending::kStopString) {
    if (std::optional<Emit> rest = answer_.finish()) add(*std::move(rest));
  }
  add(Finish{ending, std::move(status)});
}

// --- the link -----------------------------------------------------------------------------------

void DecodingSession::open_stream() {
  link_.open(now_);
  std::vector<TokenId> prefix(text().begin(), text().end());
  const std::size_t length = prefix.size();
  const std::uint32_t epoch = link_.stream().epoch;
  if (epoch > 1) drafter_.restart(prefix);  // a new stream numbers its nodes anew
  SpeculationActions actions;
  speculator_.on_stream_opening(actions);
  add(std::move(actions));
  add(Connect{epoch});
  send(make_open(options_, opened_,
                 {.prefix = std::move(prefix),
                  .end_position = answer_.asked_end(),
                  .policy = speculator_.policy(),
                  .scores_prompt = scores_prompt()}));
  if (goes_in_pieces(length, opened_)) send_prefix();
}

void DecodingSession::lose_link(const Status& why) {
  const bool first = !link_.in_outage();
  if (!link_.lose(why, now_)) return give_up();
  speculator_.on_stream_closed();
  if (first) add(link_.lost_line(why));
}

void DecodingSession::give_up() {
  finish(Ending::kLinkLost, link_.gave_up());
}

// --- what leaves --------------------------------------------------------------------------------

// Every message acknowledges what has been committed.
void DecodingSession::send(EdgeMessage::Body body) {
  observers_.notify(&SessionObserver::on_sent, body, now_);
  StreamState& stream = link_.stream();
  stream.acked = tree().end();
  if (!std::exchange(stream.asked, true)) stream.waits_since = now_;
  add(Send{{stream.acked, stream.reports_seen, std::move(body)}});
}

// The committed text, where it did not go with its Open.
void DecodingSession::send_prefix() {
  for (Prefix& piece : prefix_pieces(text())) send(std::move(piece));
}

void DecodingSession::acknowledge() {
  if (link_.phase() != Phase::kStreaming) return;
  const Position step = std::max<Position>(1, opened_.limits.run_ahead / kAcksPerRunAhead);
  if (tree().end() - link_.stream().acked >= step) send(AckOnly{});
}

void DecodingSession::add(SpeculationActions actions) {
  for (SpeculationAction& action : actions) {
    if (const auto* policy = std::get_if<Policy>(&action)) {
      send(*policy);
    } else if (auto* line = std::get_if<Say>(&action)) {
      add(std::move(*line));
    } else {
      add(AbandonDraftStep{});
    }
  }
}

StreamView DecodingSession::view() const {
  const StreamState& stream = link_.stream();
  std::optional<Position> unscored;
  if (scores_prompt()) unscored = 1 + std::ssize(stream.prompt_logprobs);
  return {tree(),
          opened_,
          answer_.prompt_length(),
          answer_.end_position(),
          stream.next_pass,
          stream.started,
          options_.accepts_server_nodes,
          options_.top_logprobs,
          unscored,
          options_.wants_digests};
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/decoding_session.h"

#include <span>
#include <utility>

#include "edge_client/session/message_checks.h"
#include "edge_client/session/opening.h"
#include "edge_client/session/session_lines.h"

namespace outrider {
DecodingSession::DecodingSession(DecodingOptions options, std::vector<TokenId> prompt,
                                 Drafter& drafter, AnswerText& text)
    : options_(std::move(options)),
      drafter_(drafter),
      answer_(text, static_cast<Position>(prompt.size()), options_.end_position),
      speculator_(speculator_options(options_), drafter, observers_),
      link_(options_.reconnect_timeout, options_.jitter_seed),
      outbox_(drafter.tree(), link_.stream(), observers_),
      passes_({drafter, opened_, link_.stream(), answer_, speculator_, observers_, outbox_}) {
  OUTRIDER_CHECK(!prompt.empty());
  drafter_.restart(prompt);
  observers_.add(figures_);
  if (options_.observer != nullptr) observers_.add(*options_.observer);
}

SessionActions DecodingSession::start(TimePoint now) {
  now_ = now;
  observers_.notify(&SessionObserver::on_start, static_cast<std::size_t>(answer_.prompt_length()),
                    now);
  if (answer_.end_position() <= answer_.prompt_length()) {
    finish(Ending::kLength, {});
  } else {
    decide();  // what the draft cannot do is known before Open leaves
    open_stream();
    decide();
  }
  return outbox_.take();
}

SessionActions DecodingSession::handle(const SessionEvent& event, TimePoint now) {
  now_ = now;
  if (!finished()) {
    std::visit([this](const auto& e) { on(e); }, event);
    if (link_.linked()) decide();
    if (link_.phase() == Phase::kStreaming) outbox_.acknowledge(opened_.limits.run_ahead, now);
  }
  return outbox_.take();
}

void DecodingSession::decide() {
  SpeculationActions actions;
  speculator_.decide(now_, actions);
  outbox_.add(std::move(actions), now_);
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
      return lose_link(silent_too_long(link_.longest_silence()));
  }
}

void DecodingSession::on(const CancelRequested&) {
  if (link_.phase() == Phase::kLeaving) return;
  if (!link_.linked()) return finish(Ending::kCancelled, {});
  outbox_.send(Cancel{}, now_);
  leave(Ending::kCancelled);
}

void DecodingSession::on(const Reopen&) {
  if (decided()) return;
  outbox_.add(speculator_.on_other_verifier(), now_);
  link_.on_verdict();  // another verifier's failures do not count
  open_stream();
}

void DecodingSession::on(const DraftStepFinished& event) {
  SpeculationActions actions;
  speculator_.on_draft_step(event.result, now_, actions);
  outbox_.add(std::move(actions), now_);
}

void DecodingSession::on(const FromVerifier& event) {
  // Of a lost link, perhaps of the last one.
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
  const Opened expected = expected_of(opened, opened_, options_);
  Status checked = check_opened(opened, expected.fingerprint, expected.arithmetic_id);
  if (!checked.ok()) return fail(checked);
  if (ever_opened_) outbox_.add_all(other_target_lines(opened_, opened));
  opened_ = opened;
  link_.set_pass_limit(opened.limits.pass_limit);
  answer_.limit_to(opened.limits.max_positions);
  const Duration took = link_.on_opened(now_);
  speculator_.on_opened(opened, took, answer_.end_position());
  observers_.notify(&SessionObserver::on_opened, opened, took, ever_opened_);
  const bool again = std::exchange(ever_opened_, true);
  if (again && link_.in_outage()) outbox_.add(link_back_line(answer_.ids().size()));
  if (again) return;
  checked = check_prompt_fits(answer_.prompt_length(), opened.limits.max_positions);
  if (!checked.ok()) return fail(checked);
  outbox_.add_all(target_lines(options_, opened, speculator_));
}

void DecodingSession::on_message(const Progress& progress) {
  if (link_.phase() != Phase::kStreaming || progress.total <= 0) return;
  outbox_.add(PrefillProgress{progress.done, progress.total});
}

void DecodingSession::on_message(const Started& started) {
  if (link_.phase() != Phase::kStreaming) return;
  if (Status checked = passes_.on_started(started, now_); !checked.ok()) fail(checked);
}

void DecodingSession::on_message(const Verdict& verdict) {
  if (link_.phase() != Phase::kStreaming) return;
  const Result<std::optional<Ending>> ending = passes_.on_verdict(verdict, now_);
  if (!ending.ok()) return fail(ending.status());
  link_.on_verdict();
  if (verdict.pass_limit > Duration{0}) link_.set_pass_limit(verdict.pass_limit);
  if (!ending->has_value()) return;
  if (**ending == Ending::kStopString) outbox_.send(Cancel{}, now_);
  leave(**ending);
}

void DecodingSession::on_message(const Usage& usage) {
  observers_.notify(&SessionObserver::on_usage, usage);
  if (link_.phase() == Phase::kLeaving) return;  // the end of the stream follows
  if (usage.reason == FinishReason::kCancelled || usage.reason == FinishReason::kError) {
    return;  // why follows with the end of the stream
  }
  Status checked = check_usage(usage, passes_.view());
  if (!checked.ok()) return fail(checked);
  leave(answer_.natural_ending(opened_.stop_ids).value_or(Ending::kLength));
}

void DecodingSession::on_message(const Notice& notice) {
  if (notice.kind == Notice::Kind::kSendPrefix) {
    if (link_.phase() == Phase::kOpening) outbox_.send_prefix(now_);
    return;
  }
  link_.on_notice(notice);
  if (link_.phase() != Phase::kLeaving) outbox_.add(notice_line(link_.stream()));
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
  if (link_.linked()) outbox_.send(Cancel{}, now_);
  finish(Ending::kFailed, status);
}

void DecodingSession::finish(Ending ending, Status status) {
  link_.finish();
  speculator_.on_stream_closed();
  if (ending != Ending::kStopString) {
    if (std::optional<Emit> rest = answer_.finish()) outbox_.add(*std::move(rest));
  }
  outbox_.add(Finish{ending, std::move(status)});
}

// --- the link -----------------------------------------------------------------------------------

void DecodingSession::open_stream() {
  link_.open(now_);
  const std::span<const TokenId> text = drafter_.tree().text();
  std::vector<TokenId> prefix(text.begin(), text.end());
  const std::uint32_t epoch = link_.stream().epoch;
  if (epoch > 1) drafter_.restart(prefix);  // a new stream numbers its nodes anew
  SpeculationActions actions;
  speculator_.on_stream_opening(actions);
  outbox_.add(std::move(actions), now_);
  outbox_.add(Connect{epoch});
  outbox_.send(make_open(options_, opened_,
                         {.prefix = std::move(prefix),
                          .end_position = answer_.asked_end(),
                          .policy = speculator_.policy()}),
               now_);
  if (goes_in_pieces(text.size(), opened_)) outbox_.send_prefix(now_);
}

void DecodingSession::lose_link(const Status& why) {
  const bool first = !link_.in_outage();
  if (!link_.lose(why, now_)) return give_up();
  speculator_.on_stream_closed();
  if (first) outbox_.add(link_lost_line(why, options_.reconnect_timeout));
}

void DecodingSession::give_up() {
  finish(Ending::kLinkLost, gave_up(options_.reconnect_timeout, link_.last_error()));
}

}  // namespace outrider

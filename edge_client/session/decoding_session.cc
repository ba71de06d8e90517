// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/decoding_session.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "edge_client/session/exit_reports.h"

namespace outrider {
namespace {

// After the answer is decided, how long to wait for the verifier's own count of it.
constexpr Duration kUsageTimeout = std::chrono::milliseconds(500);

// The share of the verifier's run-ahead after which an edge that has nothing else to send
// acknowledges: it must never be the reason for a pause.
constexpr std::uint32_t kAcksPerRunAhead = 8;

SpeculatorOptions speculation_of(const DecodingOptions& options) {
  return {.strategy = options.strategy,
          .rounds = {.gamma = options.gamma,
                     .branches = options.branches,
                     .fan_out = options.fan_out,
                     .queue = options.queue,
                     .optimize = options.optimize},
          .uplink_budget = options.uplink_budget,
          .token_bound = options.token_bound,
          .end_position = options.end_position};
}

bool may_retry(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded;
}

std::string seconds_text(Duration d) {
  return fmt::format("{:.1f} s", to_seconds(d));
}

}  // namespace

DecodingSession::DecodingSession(DecodingOptions options, std::vector<TokenId> prompt,
                                 Drafter& drafter, AnswerText& text)
    : options_(std::move(options)),
      drafter_(drafter),
      answer_(text, static_cast<Position>(prompt.size()), options_.end_position),
      speculator_(speculation_of(options_), drafter, observers_),
      reconnector_(options_.reconnect_timeout, options_.jitter_seed) {
  OUTRIDER_CHECK(!prompt.empty());
  drafter_.restart(prompt);
  evicted_before_ = drafter_.evicted();
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
  return std::exchange(actions_, {});
}

SessionActions DecodingSession::handle(const SessionEvent& event, TimePoint now) {
  now_ = now;
  if (phase_ != Phase::kFinished) {
    std::visit([this](const auto& e) { on(e); }, event);
    if (linked()) decide();
    acknowledge();
  }
  return std::exchange(actions_, {});
}

TimePoint DecodingSession::next_tick() const {
  TimePoint next = TimePoint::max();
  if (phase_ == Phase::kLeaving) next = leave_at_;
  if (phase_ == Phase::kUnlinked) next = retry_at_;
  if (phase_ == Phase::kUnlinked || phase_ == Phase::kOpening) {
    next = std::min(next, reconnector_.deadline().value_or(TimePoint::max()));
  }
  return next;
}

// --- events -------------------------------------------------------------------------------------

void DecodingSession::on(const Tick&) {
  if (phase_ == Phase::kLeaving) {
    if (now_ >= leave_at_) finish(ending_, {});
    return;
  }
  const bool waiting = phase_ == Phase::kUnlinked || phase_ == Phase::kOpening;
  const std::optional<TimePoint> deadline = reconnector_.deadline();
  if (waiting && deadline && now_ >= *deadline) {
    give_up(link_error_);
  } else if (phase_ == Phase::kUnlinked && now_ >= retry_at_) {
    open_stream();
  }
}

void DecodingSession::on(const CancelRequested&) {
  if (phase_ == Phase::kLeaving) return;
  if (!linked()) return finish(Ending::kCancelled, {});
  send(Cancel{});
  leave(Ending::kCancelled);
}

void DecodingSession::on(const DraftStepFinished& event) {
  SpeculationActions actions;
  speculator_.on_draft_step(event.result, now_, actions);
  perform(std::move(actions));
}

void DecodingSession::on(const FromVerifier& event) {
  if (event.epoch != stream_.epoch || phase_ == Phase::kUnlinked) return;  // of a lost link
  if (const auto* ended = std::get_if<StreamEnded>(&event.event)) {
    return on_stream_end(ended->status);
  }
  const auto& message = std::get<ServerMessage>(event.event);
  if (phase_ == Phase::kOpening && !std::holds_alternative<Opened>(message) &&
      !std::holds_alternative<Notice>(message)) {
    return fail(failed_precondition("the server sent something before Opened"));
  }
  std::visit([this](const auto& m) { on_message(m); }, message);
}

// --- messages of the verifier -------------------------------------------------------------------

void DecodingSession::on_message(const Opened& opened) {
  if (phase_ == Phase::kLeaving) return;
  if (phase_ != Phase::kOpening) {
    return fail(failed_precondition("the server sent Opened twice on one stream"));
  }
  Status checked = check_opened(opened, opened_.fingerprint, opened_.arithmetic_id);
  if (!checked.ok()) return fail(checked);
  phase_ = Phase::kStreaming;
  opened_ = opened;
  answer_.limit_to(opened.limits.max_positions);
  const Duration took = now_ - stream_.opened_at;
  speculator_.on_opened(opened, took, answer_.end_position());
  observers_.notify(&SessionObserver::on_opened, opened, took, ever_opened_);
  if (std::exchange(ever_opened_, true)) {
    return say(Say::Level::kInfo,
               "link: back, going on at token " + std::to_string(answer_.ids().size()));
  }
  first_opened();
}

void DecodingSession::first_opened() {
  const Position context = opened_.limits.max_positions;
  if (answer_.prompt_length() >= context) {
    return fail(invalid_argument("the prompt has " + std::to_string(answer_.prompt_length()) +
                                 " tokens, but the target's context holds " +
                                 std::to_string(context) + "; shorten the prompt"));
  }
  if (options_.speculation.empty()) return;
  say(Say::Level::kInfo, "target: " + opened_.model_name);
  if (!speculator_.ended()) say(Say::Level::kInfo, "speculation: " + options_.speculation);
  if (options_.strategy == Strategy::kFsd && opened_.exits.empty()) {
    say(Say::Level::kWarning,
        "speculation: as --strategy sd, because the target has no early exits");
  }
}

void DecodingSession::on_message(const Progress& progress) {
  if (phase_ != Phase::kStreaming || progress.total <= 0) return;
  actions_.emplace_back(PrefillProgress{progress.done, progress.total});
}

void DecodingSession::on_message(const Started& started) {
  if (phase_ != Phase::kStreaming) return;
  Status checked = check_started(started, view());
  if (!checked.ok()) return fail(checked);
  stream_.started = started;
  speculator_.on_pass_started(started, now_);
}

void DecodingSession::on_message(const Verdict& verdict) {
  if (phase_ != Phase::kStreaming) return;
  Status checked = check_verdict(verdict, view());
  if (!checked.ok()) return fail(checked);
  reconnector_.on_verdict();
  commit(verdict);
  stream_.started.reset();
  ++stream_.next_pass;
}

void DecodingSession::on_message(const ExitReport& report) {
  const std::optional<ExitAdvice> advice = read_report(report, stream_.reports_seen, view());
  stream_.reports_seen = std::max(stream_.reports_seen, report.seq);
  const bool taken = advice && speculator_.on_exit_report(*advice);
  observers_.notify(&SessionObserver::on_exit_report, report, taken, now_);
}

void DecodingSession::on_message(const Usage& usage) {
  observers_.notify(&SessionObserver::on_usage, usage);
  if (phase_ == Phase::kLeaving) return;  // the end of the stream follows
  if (usage.reason == FinishReason::kCancelled || usage.reason == FinishReason::kError) {
    return;  // why follows with the end of the stream
  }
  Status checked = check_usage(usage, view());
  if (!checked.ok()) return fail(checked);
  leave(answer_.natural_ending(opened_.stop_ids).value_or(Ending::kLength));
}

void DecodingSession::on_message(const Notice& notice) {
  stream_.asked_delay = std::max(notice.retry_after, Duration::zero());
  stream_.overloaded = notice.kind == Notice::Kind::kOverloaded;
  if (phase_ == Phase::kLeaving) return;
  if (stream_.overloaded) {
    say(Say::Level::kWarning,
        "server: overloaded, asks to wait " + seconds_text(stream_.asked_delay));
  } else {
    // It lets the answer finish if it can; if not, the stream ends and we reconnect.
    say(Say::Level::kInfo, "server: is shutting down; going on for as long as it answers");
  }
}

void DecodingSession::on_stream_end(const Status& status) {
  if (phase_ == Phase::kLeaving) return finish(ending_, {});
  if (status.ok()) return lose_link(unavailable("the server closed the stream"));
  const bool asked_to_wait = stream_.overloaded && status.code() == StatusCode::kResourceExhausted;
  if (may_retry(status.code()) || asked_to_wait) return lose_link(status);
  finish(Ending::kFailed, status);
}

// --- the answer ---------------------------------------------------------------------------------

// The verdict has passed every check.
void DecodingSession::commit(const Verdict& verdict) {
  const VerifiedRound round = verified_round(drafter_.tree(), *stream_.started, verdict.tokens);
  Answer::Taken taken = answer_.take(verdict.tokens);
  SpeculationActions actions;
  const Speculator::Committed committed = speculator_.on_verdict(verdict, round, now_, actions);
  perform(std::exchange(actions, {}));
  actions_.emplace_back(std::move(taken.emit));
  const VerdictRecord record{.verdict = verdict,
                             .round = round,
                             .answer_tokens = answer_.ids().size(),
                             .round_trip = speculator_.round_trip(),
                             .request_round_trip = committed.request_round_trip,
                             .sent_unused = committed.sent_unused,
                             .evicted = drafter_.evicted() - evicted_before_};
  observers_.notify(&SessionObserver::on_verdict, record, now_);
  if (taken.stopped) {
    send(Cancel{});
    return leave(Ending::kStopString);
  }
  if (const auto ending = answer_.natural_ending(opened_.stop_ids)) return leave(*ending);
  speculator_.on_answer_continues(now_, actions);
  perform(std::move(actions));
}

void DecodingSession::acknowledge() {
  if (phase_ != Phase::kStreaming) return;
  const Position step = std::max<Position>(1, opened_.limits.run_ahead / kAcksPerRunAhead);
  if (drafter_.tree().end() - stream_.acked >= step) send(AckOnly{});
}

// The answer is decided; the verifier's Usage would complete the figures.
void DecodingSession::leave(Ending ending) {
  phase_ = Phase::kLeaving;
  speculator_.on_stream_closed();
  ending_ = ending;
  leave_at_ = now_ + kUsageTimeout;
}

void DecodingSession::fail(const Status& status) {
  if (linked()) send(Cancel{});
  finish(Ending::kFailed, status);
}

void DecodingSession::finish(Ending ending, Status status) {
  phase_ = Phase::kFinished;
  speculator_.on_stream_closed();
  if (ending != Ending::kStopString) {
    if (std::optional<Emit> rest = answer_.finish()) actions_.emplace_back(*std::move(rest));
  }
  actions_.emplace_back(Finish{ending, std::move(status)});
}

// --- the link -----------------------------------------------------------------------------------

void DecodingSession::open_stream() {
  phase_ = Phase::kOpening;
  stream_ = {.epoch = stream_.epoch + 1, .opened_at = now_};
  const std::span<const TokenId> text = drafter_.tree().text();
  std::vector<TokenId> prefix(text.begin(), text.end());
  if (stream_.epoch > 1) drafter_.restart(prefix);  // a new stream numbers its nodes anew
  SpeculationActions actions;
  speculator_.on_stream_opening(actions);
  perform(std::move(actions));
  actions_.emplace_back(Connect{stream_.epoch});
  send(Open{.tokenizer_hash = options_.tokenizer_hash,
            .sampling = options_.sampling,
            .seed = options_.seed,
            .prefix = std::move(prefix),
            .end_position = answer_.asked_end(),
            .policy = speculator_.policy(),
            .stop_ids = options_.stop_ids,
            .expected_fingerprint = opened_.fingerprint,
            .expected_arithmetic_id = opened_.arithmetic_id,
            .replaced_session = ever_opened_ ? opened_.session_id : options_.replaced_session});
}

void DecodingSession::lose_link(const Status& why) {
  const bool first = !reconnector_.deadline();
  const std::optional<TimePoint> retry = reconnector_.on_failure(now_, stream_.asked_delay);
  if (!retry) return give_up(why.message());
  link_error_ = why.message();
  phase_ = Phase::kUnlinked;
  speculator_.on_stream_closed();
  retry_at_ = *retry;
  if (first) {
    say(Say::Level::kWarning,
        "link: " + why.message() + "; retrying for up to " + seconds_text(reconnector_.timeout()));
  }
}

void DecodingSession::give_up(const std::string& why) {
  finish(Ending::kLinkLost, unavailable("gave up after " + seconds_text(reconnector_.timeout()) +
                                        " of retries (--reconnect-timeout): " + why));
}

// --- actions ------------------------------------------------------------------------------------

void DecodingSession::decide() {
  SpeculationActions actions;
  speculator_.decide(now_, actions);
  perform(std::move(actions));
}

void DecodingSession::perform(SpeculationActions actions) {
  for (SpeculationAction& action : actions) {
    if (auto* grow = std::get_if<Grow>(&action)) {
      send(std::move(*grow));
    } else if (auto* policy = std::get_if<Policy>(&action)) {
      send(*policy);
    } else if (auto* run = std::get_if<RunDraftStep>(&action)) {
      actions_.emplace_back(std::move(*run));
    } else if (auto* line = std::get_if<Say>(&action)) {
      actions_.emplace_back(std::move(*line));
    } else {
      actions_.emplace_back(AbandonDraftStep{});
    }
  }
}

void DecodingSession::send(EdgeMessage::Body body) {
  observers_.notify(&SessionObserver::on_sent, body, now_);
  stream_.acked = drafter_.tree().end();
  actions_.emplace_back(Send{{stream_.acked, stream_.reports_seen, std::move(body)}});
}

void DecodingSession::say(Say::Level level, std::string line) {
  actions_.emplace_back(Say{level, std::move(line)});
}

StreamView DecodingSession::view() const {
  return {drafter_.tree(), opened_, answer_.end_position(), stream_.next_pass, stream_.started};
}

}  // namespace outrider

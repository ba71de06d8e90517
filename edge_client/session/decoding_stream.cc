// The session's ear: what each message of the verifier means, and what becomes of a lost link.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "edge_client/session/decoding_session.h"
#include "edge_client/session/exit_reports.h"

namespace outrider {
namespace {

bool may_retry(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded;
}

std::string seconds_text(Duration d) {
  return fmt::format("{:.1f} s", to_seconds(d));
}

}  // namespace

void DecodingSession::open_stream() {
  phase_ = Phase::kOpening;
  ++epoch_;
  next_pass_ = 0;
  started_.reset();
  round_sent_ = false;
  ahead_id_ = 0;
  reports_seen_ = 0;
  asked_delay_ = Duration::zero();
  retry_was_asked_ = false;
  asked_at_.reset();
  asked_for_.reset();
  uplink_.restart();
  exits_changed_at_.reset();  // Open carries the policy
  opened_at_ = now_;
  const std::span<const TokenId> text = drafter_.tree().text();
  std::vector<TokenId> prefix(text.begin(), text.end());
  if (epoch_ > 1) {
    drafter_.restart(prefix);  // a new stream numbers its nodes anew
    if (drafter_.step_is_obsolete()) actions_.emplace_back(AbandonDraftStep{});
  }
  actions_.emplace_back(Connect{epoch_});
  send(Open{.tokenizer_hash = options_.tokenizer_hash,
            .sampling = options_.sampling,
            .seed = options_.seed,
            .prefix = std::move(prefix),
            .end_position = options_.end_position,
            .policy = policy_,
            .stop_ids = options_.stop_ids,
            .expected_fingerprint = opened_.fingerprint,
            .expected_arithmetic_id = opened_.arithmetic_id,
            .replaced_session = ever_opened_ ? opened_.session_id : options_.replaced_session});
}

void DecodingSession::on(const FromVerifier& event) {
  if (event.epoch != epoch_ || phase_ == Phase::kUnlinked) return;  // of a link that is gone
  if (const auto* ended = std::get_if<StreamEnded>(&event.event)) {
    return stream_ended(ended->status);
  }
  const auto& message = std::get<ServerMessage>(event.event);
  if (phase_ == Phase::kOpening && !std::holds_alternative<Opened>(message) &&
      !std::holds_alternative<Notice>(message)) {
    return fail(failed_precondition("the server sent something before Opened"));
  }
  std::visit([this](const auto& m) { receive(m); }, message);
}

void DecodingSession::receive(const Opened& opened) {
  if (phase_ == Phase::kLeaving) return;
  if (phase_ != Phase::kOpening) {
    return fail(failed_precondition("the server sent Opened twice on one stream"));
  }
  Status checked = check_opened(opened, opened_.fingerprint, opened_.arithmetic_id);
  if (!checked.ok()) return fail(checked);
  phase_ = Phase::kStreaming;
  timings_.opened(now_ - opened_at_);
  opened_ = opened;
  stats_.predraft.exit_layers = opened.exits;
  controller_.target_has_exits(!opened.exits.empty());
  end_position_ = std::min(options_.end_position, opened.limits.max_positions);
  if (ever_opened_) {
    ++stats_.reconnects;
    say(Say::Level::kInfo, "link: back, going on at token " + std::to_string(answer_.size()));
    return;
  }
  ever_opened_ = true;
  stats_.open_round_trip = now_ - opened_at_;
  if (prompt_length_ >= opened.limits.max_positions) {
    return fail(invalid_argument("the prompt has " + std::to_string(prompt_length_) +
                                 " tokens, but the target's context holds " +
                                 std::to_string(opened.limits.max_positions) +
                                 "; shorten the prompt"));
  }
  if (options_.speculation.empty()) return;
  say(Say::Level::kInfo, "target: " + opened.model_name);
  if (!speculation_ended_) say(Say::Level::kInfo, "speculation: " + options_.speculation);
  if (options_.strategy == Strategy::kFsd && opened.exits.empty()) {
    say(Say::Level::kWarning,
        "speculation: as --strategy sd, because the target has no early exits");
  }
}

void DecodingSession::receive(const Progress& progress) {
  if (phase_ != Phase::kStreaming || progress.total <= 0) return;
  actions_.emplace_back(PrefillProgress{progress.done, progress.total});
}

void DecodingSession::receive(const Started& started) {
  if (phase_ != Phase::kStreaming) return;
  Status checked = check_started(started, view());
  if (!checked.ok()) return fail(checked);
  started_ = started;
  drafter_.pass_started(started.last_id, started.left_out);
  // What had left before the verdict may still have been on its way when the pass began.
  if (const NodeId id = std::exchange(ahead_id_, 0); id != 0 && pass_took(started, id)) {
    ++stats_.predraft.synced;
  }
  // An eager verifier may have started without what we sent.
  if (asked_at_ && started.last_id >= asked_id_) asked_for_ = now_ - *asked_at_;
  asked_at_.reset();
  timings_.bounded(uplink_.started(started.last_id, timings_.round_trip(), now_));
  pass_has_exits_ = exits_of_pass();
  pass_origin_ = now_ - timings_.round_trip();
  round_sent_ = true;
  trace(Timeline::Track::kHeard, "pass " + std::to_string(started.pass) + " started");
}

void DecodingSession::receive(const Verdict& verdict) {
  if (phase_ != Phase::kStreaming) return;
  Status checked = check_verdict(verdict, view());
  if (!checked.ok()) return fail(checked);
  reconnector_.healthy();
  commit(verdict);
  started_.reset();
  ++next_pass_;
}

void DecodingSession::receive(const ExitReport& report) {
  const std::optional<Drafter::Advice> advice = read_report(report, reports_seen_, view());
  reports_seen_ = std::max(reports_seen_, report.seq);
  if (!advice || !drafting_ || !drafts_ahead()) {
    ++stats_.predraft.ignored_reports;
    return;
  }
  ++stats_.predraft.reports;
  trace(Timeline::Track::kHeard, stats_.predraft.exit_name(report.exit) + " of pass " +
                                     std::to_string(report.pass) + ", confidence " +
                                     std::to_string(report.confidence) + "/255");
  drafter_.advise(*advice);
}

void DecodingSession::receive(const Usage& usage) {
  stats_.usage = usage;
  if (phase_ == Phase::kLeaving) return;  // the end of the stream follows
  if (usage.reason == FinishReason::kCancelled || usage.reason == FinishReason::kError) {
    return;  // why follows with the end of the stream
  }
  Status checked = check_usage(usage, view());
  if (!checked.ok()) return fail(checked);
  leave(natural_ending().value_or(Ending::kLength));
}

void DecodingSession::receive(const Notice& notice) {
  asked_delay_ = std::max(notice.retry_after, Duration::zero());
  retry_was_asked_ = notice.kind == Notice::Kind::kOverloaded;
  if (phase_ == Phase::kLeaving) return;
  if (notice.kind == Notice::Kind::kOverloaded) {
    say(Say::Level::kWarning, "server: overloaded, asks to wait " + seconds_text(asked_delay_));
  } else {
    // It lets the answer finish if it can; if not, the stream ends and we reconnect.
    say(Say::Level::kInfo, "server: is shutting down; going on for as long as it answers");
  }
}

void DecodingSession::stream_ended(const Status& status) {
  if (phase_ == Phase::kLeaving) return finish(ending_, {});
  if (status.ok()) return lose_link(unavailable("the server closed the stream"));
  const bool told_to_wait = retry_was_asked_ && status.code() == StatusCode::kResourceExhausted;
  if (may_retry(status.code()) || told_to_wait) return lose_link(status);
  finish(Ending::kFailed, status);
}

void DecodingSession::lose_link(const Status& why) {
  const bool first = !reconnector_.deadline();
  const std::optional<TimePoint> retry = reconnector_.failed(now_, asked_delay_);
  if (!retry) return give_up(why.message());
  link_error_ = why.message();
  phase_ = Phase::kUnlinked;
  retry_at_ = *retry;
  round_sent_ = false;
  if (first) {
    say(Say::Level::kWarning,
        "link: " + why.message() + "; retrying for up to " + seconds_text(reconnector_.timeout()));
  }
}

void DecodingSession::give_up(const std::string& why) {
  finish(Ending::kLinkLost, unavailable("gave up after " + seconds_text(reconnector_.timeout()) +
                                        " of retries (--reconnect-timeout): " + why));
}

StreamView DecodingSession::view() const {
  return {drafter_.tree(), opened_, end_position_, next_pass_, started_};
}

}  // namespace outrider

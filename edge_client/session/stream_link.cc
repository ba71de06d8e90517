// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/stream_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// After the answer is decided, how long to wait for the verifier's own count of it.
constexpr Duration kUsageTimeout = std::chrono::milliseconds(500);

// The longest silence of a verifier that does not say how long a pass may take.
constexpr Duration kSilence = std::chrono::minutes(2);
// Added to what it does say: time for the link, and for its own watchdog, which should speak first.
constexpr Duration kGrace = std::chrono::seconds(2);

constexpr Duration kBetweenNotices = std::chrono::seconds(1);  // of lines about them

// Reconnects.
constexpr Duration kFirstDelay = std::chrono::milliseconds(100);
constexpr Duration kLongestDelay = std::chrono::seconds(3);
constexpr Duration kLastTry = std::chrono::milliseconds(250);
constexpr int kMaxDoublings = 5;

std::string seconds_text(Duration d) {
  return fmt::format("{:.1f} s", to_seconds(d));
}

}  // namespace

// --- timers -------------------------------------------------------------------------------------

TimePoint StreamLink::next_tick() const {
  TimePoint next = TimePoint::max();
  if (phase_ == Phase::kLeaving) next = leave_at_;
  if (phase_ == Phase::kUnlinked) next = retry_at_;
  if (linked()) next = silent_at();
  if (awaits_verifier()) next = std::min(next, deadline().value_or(TimePoint::max()));
  return next;
}

StreamLink::Due StreamLink::due(TimePoint now) const {
  if (phase_ == Phase::kLeaving) return now >= leave_at_ ? Due::kFinish : Due::kNothing;
  if (awaits_verifier() && in_outage() && now >= *deadline()) return Due::kGiveUp;
  if (linked() && now >= silent_at()) return Due::kSilent;
  return phase_ == Phase::kUnlinked && now >= retry_at_ ? Due::kOpen : Due::kNothing;
}

Duration StreamLink::longest_silence() const {
  return pass_limit_ > Duration{0} ? pass_limit_ + kGrace : kSilence;
}

// --- the stream ---------------------------------------------------------------------------------

void StreamLink::open(TimePoint now) {
  phase_ = Phase::kOpening;
  stream_ = {.epoch = stream_.epoch + 1, .opened_at = now, .waits_since = now};
}

Duration StreamLink::on_opened(TimePoint now) {
  phase_ = Phase::kStreaming;
  return now - stream_.opened_at;
}

void StreamLink::heard(TimePoint now) {
  stream_.waits_since = now;
  stream_.asked = false;
}

void StreamLink::on_notice(const Notice& notice) {
  stream_.asked_delay = std::max(notice.retry_after, Duration::zero());
  stream_.overloaded = notice.kind == Notice::Kind::kOverloaded;
}

void StreamLink::leave(TimePoint now) {
  phase_ = Phase::kLeaving;
  leave_at_ = now + kUsageTimeout;
}

// --- outages ------------------------------------------------------------------------------------

bool StreamLink::may_retry(const Status& ended) const {
  const StatusCode code = ended.code();
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         (stream_.overloaded && code == StatusCode::kResourceExhausted);
}

bool StreamLink::lose(const Status& why, TimePoint now) {
  last_error_ = why.message();
  const std::optional<TimePoint> retry = next_try(now);
  if (!retry) return false;
  phase_ = Phase::kUnlinked;
  retry_at_ = *retry;
  return true;
}

// Nothing if the outage has lasted too long.
std::optional<TimePoint> StreamLink::next_try(TimePoint now) {
  if (!outage_began_) outage_began_ = now;
  const Duration full =
      std::min(kLongestDelay, kFirstDelay * (1 << std::min(failures_, kMaxDoublings)));
  ++failures_;
  // Anywhere in the upper half of the delay.
  const Duration delay =
      full / 2 +
      Duration(static_cast<std::int64_t>(jitter_() % static_cast<std::uint64_t>(full.count() / 2)));
  const TimePoint end = *deadline();
  if (now >= end) return std::nullopt;
  // The last try comes shortly before the end, however long the delay has grown.
  const TimePoint last_try = std::max(now, end - kLastTry);
  return std::min(now + std::max(delay, stream_.asked_delay), now < last_try ? last_try : end);
}

void StreamLink::on_verdict() {
  outage_began_.reset();
  failures_ = 0;
}

std::optional<TimePoint> StreamLink::deadline() const {
  if (!outage_began_) return std::nullopt;
  return *outage_began_ + reconnect_timeout_;
}

// --- lines for the user --------------------------------------------------------------------------

std::optional<Say> StreamLink::notice_line(TimePoint now) {
  if (now < next_notice_line_) {
    ++untold_notices_;
    return std::nullopt;
  }
  next_notice_line_ = now + kBetweenNotices;
  const std::uint64_t untold = std::exchange(untold_notices_, 0);
  const std::string more = untold > 0 ? fmt::format(" ({} more notices before)", untold) : "";
  if (stream_.overloaded) {
    return Say{Say::Level::kWarning,
               "server: overloaded, asks to wait " + seconds_text(stream_.asked_delay) + more};
  }
  // It lets the answer finish if it can; if not, the stream ends and we reconnect.
  return Say{Say::Level::kInfo,
             "server: is shutting down; going on for as long as it answers" + more};
}

Say StreamLink::lost_line(const Status& why) const {
  return {Say::Level::kWarning,
          "link: " + why.message() + "; retrying for up to " + seconds_text(reconnect_timeout_)};
}

Say StreamLink::back_line(std::size_t answer_tokens) {
  return {Say::Level::kInfo, "link: back, going on at token " + std::to_string(answer_tokens)};
}

Status StreamLink::silent_too_long() const {
  return unavailable("the server has said nothing for " + seconds_text(longest_silence()));
}

Status StreamLink::gave_up() const {
  return unavailable("gave up after " + seconds_text(reconnect_timeout_) +
                     " of retries (--reconnect-timeout): " + last_error_);
}

}  // namespace outrider

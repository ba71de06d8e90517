// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/stream_link.h"

#include <algorithm>
#include <optional>

namespace outrider {
namespace {

// After the answer is decided, how long to wait for the verifier's own count of it.
constexpr Duration kUsageTimeout = std::chrono::milliseconds(500);

// Of a verifier that has not said how long its passes may take.
constexpr Duration kSilence = std::chrono::minutes(2);
// Beyond what it has said: the way, and its own watchdog, which is to speak first.
constexpr Duration kGrace = std::chrono::seconds(2);

}  // namespace

TimePoint StreamLink::next_tick() const {
  TimePoint next = TimePoint::max();
  if (phase_ == Phase::kLeaving) next = leave_at_;
  if (phase_ == Phase::kUnlinked) next = retry_at_;
  if (linked()) next = silent_at();
  if (awaits_verifier()) next = std::min(next, reconnector_.deadline().value_or(TimePoint::max()));
  return next;
}

StreamLink::Due StreamLink::due(TimePoint now) const {
  if (phase_ == Phase::kLeaving) return now >= leave_at_ ? Due::kFinish : Due::kNothing;
  const std::optional<TimePoint> deadline = reconnector_.deadline();
  if (awaits_verifier() && deadline && now >= *deadline) return Due::kGiveUp;
  if (linked() && now >= silent_at()) return Due::kSilent;
  return phase_ == Phase::kUnlinked && now >= retry_at_ ? Due::kOpen : Due::kNothing;
}

void StreamLink::open(TimePoint now) {
  phase_ = Phase::kOpening;
  stream_ = {.epoch = stream_.epoch + 1, .opened_at = now, .waits_since = now};
}

void StreamLink::heard(TimePoint now) {
  stream_.waits_since = now;
  stream_.asked = false;
}

Duration StreamLink::longest_silence() const {
  return pass_limit_ > Duration{0} ? pass_limit_ + kGrace : kSilence;
}

Duration StreamLink::on_opened(TimePoint now) {
  phase_ = Phase::kStreaming;
  return now - stream_.opened_at;
}

void StreamLink::on_notice(const Notice& notice) {
  stream_.asked_delay = std::max(notice.retry_after, Duration::zero());
  stream_.overloaded = notice.kind == Notice::Kind::kOverloaded;
}

bool StreamLink::lose(const Status& why, TimePoint now) {
  last_error_ = why.message();
  const std::optional<TimePoint> retry = reconnector_.on_failure(now, stream_.asked_delay);
  if (!retry) return false;
  phase_ = Phase::kUnlinked;
  retry_at_ = *retry;
  return true;
}

bool StreamLink::may_retry(const Status& ended) const {
  const StatusCode code = ended.code();
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         (stream_.overloaded && code == StatusCode::kResourceExhausted);
}

void StreamLink::leave(TimePoint now) {
  phase_ = Phase::kLeaving;
  leave_at_ = now + kUsageTimeout;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/pass_tracker.h"

#include <utility>

namespace outrider {
namespace {

// Beyond a round trip, until a change of policy has surely arrived.
constexpr Duration kCrossingSlack = std::chrono::milliseconds(1);

}  // namespace

void PassTracker::on_round_sent(TimePoint now) {
  has_round_ = true;
  origin_ = now;
}

void PassTracker::on_request(NodeId last_id, TimePoint now) {
  request_ = Request{last_id, now};
}

std::optional<Duration> PassTracker::on_started(const Started& started, bool wants_exits,
                                                Duration round_trip, TimePoint now) {
  // A round that had left before the verdict may still have been on its way when the pass began.
  const std::optional<Ahead> ahead = std::exchange(ahead_, std::nullopt);
  std::optional<Duration> synced;
  if (ahead && pass_took(started, ahead->first_id)) synced = ahead->arrived_after_pass;
  // An eager verifier may have started without what was asked for.
  if (request_ && started.last_id >= request_->last_id) request_took_ = now - request_->at;
  request_.reset();
  // A change of policy may have crossed the start of the pass; then nobody knows which one it has.
  const Duration crossing = round_trip * 5 / 4 + kCrossingSlack;
  const bool crossed = exits_changed_at_ && now - *exits_changed_at_ < crossing;
  has_exits_ = crossed ? std::nullopt : std::optional<bool>(wants_exits);
  origin_ = now - round_trip;
  has_round_ = true;
  return synced;
}

std::optional<Duration> PassTracker::on_verdict(const PassTimings& timings) {
  ++verdicts_;
  const std::optional<Duration> took = std::exchange(request_took_, std::nullopt);
  // How much of it others took of the device is not known exactly.
  if (!took || timings.load > Load::kFree) return std::nullopt;
  return *took - timings.queued;
}

void PassTracker::on_next_round(bool has_round, Duration round_trip, TimePoint now) {
  has_round_ = has_round;
  origin_ = now - round_trip;
}

}  // namespace outrider

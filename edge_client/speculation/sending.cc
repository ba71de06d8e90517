// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/sending.h"

#include <algorithm>

namespace outrider {
namespace {

// On the wire a node takes its token, parent and confidence as varints; a message the ids, the
// acknowledgements, and gRPC's and HTTP/2's frames around it.
constexpr double kNodeBytes = 6;
constexpr double kMessageBytes = 34;

constexpr double kBytesPerToken = 130;  // of the 200 that a committed token may cost
constexpr double kMaxSaved = 2048;      // a pause is no reason for a flood
constexpr double kBurstSeconds = 0.5;

// The window.
constexpr double kSmallest = 256;  // some four rounds
constexpr double kLargest = 65536;
constexpr double kGrowth = 1.25;
constexpr std::size_t kRoundTrips = 8;  // a longer round trip counts after so many
constexpr double kLate = 1.5;           // times the round trip, and
constexpr Duration kJitter = std::chrono::milliseconds(20);

}  // namespace

double ByteAllowance::cost(std::size_t nodes) {
  return kMessageBytes + kNodeBytes * static_cast<double>(nodes);
}

void ByteAllowance::on_committed(std::size_t tokens) {
  by_tokens_ = std::min(kMaxSaved, by_tokens_ + kBytesPerToken * static_cast<double>(tokens));
}

void ByteAllowance::advance(TimePoint now) {
  if (per_second_ <= 0) return;
  if (last_ != TimePoint{}) by_time_ += per_second_ * to_seconds(now - last_);
  by_time_ = std::min(by_time_, std::max(kFirst, per_second_ * kBurstSeconds));
  last_ = now;
}

bool ByteAllowance::covers(std::size_t nodes) const {
  const double bytes = cost(nodes);
  return bytes <= by_tokens_ && (per_second_ <= 0 || bytes <= by_time_);
}

void ByteAllowance::spend(std::size_t nodes) {
  by_tokens_ -= cost(nodes);
  by_time_ -= cost(nodes);
}

std::vector<NodeIndex> nodes_to_send(std::span<const DraftedRound> rounds,
                                     const SendingLimits& limits, const ByteAllowance& allowance) {
  std::vector<NodeIndex> nodes;
  for (const DraftedRound& round : rounds) {
    if (round.chance < limits.min_chance) break;
    const bool whole = round.whole || round.length >= limits.whole;
    const bool ready = whole || (limits.due && round.length >= limits.least);
    if (!ready) continue;
    const std::size_t after = nodes.size() + round.unsent.size();
    if (after > limits.room || ByteAllowance::cost(after) > limits.link_room) break;
    if (!allowance.covers(after)) break;
    nodes.insert(nodes.end(), round.unsent.begin(), round.unsent.end());
  }
  return nodes;
}

void UplinkWindow::restart() {
  under_way_.clear();
  bytes_under_way_ = 0;
  heard_ = 0;
  round_trips_.clear();
}

void UplinkWindow::on_opened() {
  for (Sent& message : under_way_) message.was_open = false;
}

void UplinkWindow::on_sent(NodeId last_id, double bytes, TimePoint now) {
  under_way_.push_back({.last_id = last_id, .bytes = bytes, .at = now});
  bytes_under_way_ += bytes;
}

RoundTripBounds UplinkWindow::on_pass_started(NodeId last_id, Duration round_trip, TimePoint now) {
  RoundTripBounds bounds;
  heard_ = last_id;
  while (!under_way_.empty() && under_way_.front().last_id <= last_id) {
    if (under_way_.front().was_open) bounds.at_most = now - under_way_.front().at;
    bytes_under_way_ -= under_way_.front().bytes;
    under_way_.pop_front();
  }
  if (!under_way_.empty() && under_way_.front().was_open) {
    bounds.at_least = now - under_way_.front().at;
  }
  adapt(bounds, round_trip);
  return bounds;
}

// The pass ended half a round trip ago, and the node takes half of one.
Duration UplinkWindow::arrived_after_pass(NodeId id, Duration round_trip, TimePoint now) const {
  const auto sent = std::find_if(under_way_.begin(), under_way_.end(),
                                 [id](const Sent& message) { return message.last_id >= id; });
  if (id <= heard_ || sent == under_way_.end()) return Duration{0};
  return std::max(Duration{0}, round_trip - (now - sent->at));
}

void UplinkWindow::adapt(const RoundTripBounds& bounds, Duration round_trip) {
  const Duration own = link_round_trip(round_trip);
  if (own == Duration{0}) return;
  const bool late = bounds.at_least && to_ms(*bounds.at_least) > kLate * to_ms(own + kJitter);
  size_ = late ? std::max(size_ / 2, kSmallest) : std::min(size_ * kGrowth, kLargest);
}

double UplinkWindow::room() const {
  return std::max(0.0, size_ - bytes_under_way_);
}

Duration UplinkWindow::link_round_trip(Duration latest) {
  if (latest > Duration{0}) round_trips_.push_back(latest);
  if (round_trips_.size() > kRoundTrips) round_trips_.pop_front();
  const auto least = std::min_element(round_trips_.begin(), round_trips_.end());
  return least == round_trips_.end() ? Duration{0} : *least;
}

}  // namespace outrider

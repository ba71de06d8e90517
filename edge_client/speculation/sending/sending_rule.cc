// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/sending/sending_rule.h"

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

}  // namespace outrider

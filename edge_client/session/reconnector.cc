// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/reconnector.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr Duration kFirstDelay = std::chrono::milliseconds(100);
constexpr Duration kLongestDelay = std::chrono::seconds(3);
constexpr Duration kLastTry = std::chrono::milliseconds(250);
constexpr int kMaxDoublings = 5;

}  // namespace

std::optional<TimePoint> Reconnector::on_failure(TimePoint now, Duration asked_delay) {
  if (!outage_began_) outage_began_ = now;
  const Duration full =
      std::min(kLongestDelay, kFirstDelay * (1 << std::min(failures_, kMaxDoublings)));
  ++failures_;
  // Anywhere in the upper half of the delay.
  const Duration delay =
      full / 2 +
      Duration(static_cast<std::int64_t>(jitter_() % static_cast<std::uint64_t>(full.count() / 2)));
  const TimePoint deadline = *outage_began_ + timeout_;
  if (now >= deadline) return std::nullopt;
  // The last try comes shortly before the end, however long the delay has grown.
  const TimePoint last_try = std::max(now, deadline - kLastTry);
  return std::min(now + std::max(delay, asked_delay), now < last_try ? last_try : deadline);
}

void Reconnector::on_verdict() {
  outage_began_.reset();
  failures_ = 0;
}

std::optional<TimePoint> Reconnector::deadline() const {
  if (!outage_began_) return std::nullopt;
  return *outage_began_ + timeout_;
}

}  // namespace outrider

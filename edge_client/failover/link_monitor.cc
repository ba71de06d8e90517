// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/link_monitor.h"

#include <fmt/core.h>

#include <algorithm>

namespace outrider {
namespace {

// A silence of so many gaps is none of the usual ones.
constexpr int kGaps = 4;
constexpr Duration kMinSilence = std::chrono::milliseconds(500);
// The factor by which the longest gap shrinks with each message.
constexpr double kKept = 0.9;
// An outage is waited for so many times as long as the last ones were.
constexpr double kOutageSlack = 1.25;

// So long a server is watched before it is called slow, and so much slower it must be.
constexpr Duration kWatched = std::chrono::seconds(3);
constexpr double kSlower = 0.8;
constexpr std::size_t kRoundTrips = 5;

}  // namespace

void LinkMonitor::on_stream(TimePoint now, std::optional<Duration> opening) {
  heard_ = now;
  opening_ = opening;
  first_verdict_.reset();
  rate_ = {};
}

void LinkMonitor::on_heard(TimePoint now) {
  if (first_verdict_) longest_gap_ = std::max(from_ms(kKept * to_ms(longest_gap_)), now - heard_);
  heard_ = now;
  opening_.reset();
}

void LinkMonitor::on_verdict(std::size_t tokens, TimePoint now) {
  if (!first_verdict_) first_verdict_ = now;
  rate_.on_verdict(tokens, now);
}

// A server answers an Open before it reads the prompt, so a link that is known needs no patience
// for that; another session's pass may run.
Duration LinkMonitor::patience() const {
  if (opening_) {
    return std::min(std::max(kGaps * std::max(*opening_, longest_gap_), kMinSilence),
                    floors_.first_patience);
  }
  if (!first_verdict_ || longest_gap_ == Duration{0}) return floors_.first_patience;
  const Duration most = std::max(floors_.first_patience, 2 * longest_gap_);
  return std::min(std::max({kGaps * longest_gap_, kMinSilence, outage_}), most);
}

void LinkMonitor::on_outage(Duration lasted) {
  const Duration needed = from_ms(kOutageSlack * to_ms(lasted));
  outage_ = needed <= floors_.first_patience ? std::max(from_ms(kKept * to_ms(outage_)), needed)
                                             : Duration{0};
}

std::optional<std::string> LinkMonitor::too_slow(std::optional<double> other_rate,
                                                 const std::vector<Duration>& round_trips,
                                                 TimePoint now) const {
  const Duration limit = floors_.max_round_trip;
  if (limit > Duration{0} && round_trips.size() >= kRoundTrips) {
    const Duration least = *std::min_element(
        round_trips.end() - static_cast<std::ptrdiff_t>(kRoundTrips), round_trips.end());
    if (least > limit) {
      return fmt::format("its round trips take {:.0f} ms, more than {:.0f}", to_ms(least),
                         to_ms(limit));
    }
  }
  const std::optional<double> rate = rate_.per_s();
  if (!rate || now - *first_verdict_ < kWatched) return std::nullopt;
  const double floor = std::max(floors_.min_rate, kSlower * other_rate.value_or(0));
  if (*rate >= floor) return std::nullopt;
  return fmt::format("it brings {:.1f} tokens/s, fewer than {:.1f}", *rate, floor);
}

}  // namespace outrider

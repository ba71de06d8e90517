// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/time_spent.h"

#include <algorithm>
#include <utility>

namespace outrider {

TimeSpent& TimeSpent::operator+=(const TimeSpent& more) {
  first += more.first;
  drafting += more.drafting;
  link += more.link;
  target += more.target;
  queued += more.queued;
  other += more.other;
  return *this;
}

TimeSpent TimeKeeper::on_verdict(const PassTimings& timings, Duration round_trip, TimePoint now) {
  const Duration whole = now - last_verdict_;
  const TimePoint begin = std::exchange(last_verdict_, now);
  const std::optional<TimePoint> round_sent = std::exchange(round_sent_, std::nullopt);
  TimeSpent spent;
  if (std::exchange(first_, false)) {
    spent.first = whole;
  } else {
    // Takes at most what is left of the interval.
    Duration left = whole;
    const auto take = [&](Duration& into, Duration what) {
      into = std::clamp(what, Duration{0}, left);
      left -= into;
    };
    take(spent.target, timings.computed);
    take(spent.queued, timings.queued);
    if (round_sent) {
      take(spent.drafting, *round_sent - begin);
      take(spent.link, round_trip);
    }
    spent.other = left;
  }
  spent_ += spent;
  return spent;
}

}  // namespace outrider

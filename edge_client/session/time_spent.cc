// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/time_spent.h"

#include <algorithm>
#include <utility>

namespace outrider {

void TimeKeeper::verdict(const PassTimings& timings, Duration round_trip, TimePoint now) {
  Duration left = now - last_verdict_;
  last_verdict_ = now;
  const std::optional<TimePoint> round_left = std::exchange(round_left_, std::nullopt);
  if (first_) {
    first_ = false;
    spent_.first = left;
    return;
  }
  // Takes at most what is left of the interval.
  const auto take = [&](Duration& into, Duration what) {
    what = std::clamp(what, Duration{0}, left);
    into += what;
    left -= what;
  };
  const TimePoint begin = now - left;
  take(spent_.target, timings.computed);
  take(spent_.queued, timings.queued);
  if (round_left) {
    take(spent_.drafting, *round_left - begin);
    take(spent_.link, round_trip);
  }
  spent_.other += left;
}

}  // namespace outrider

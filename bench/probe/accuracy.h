// How well an emulated link keeps its profile: datagrams measure it, and the profile's own law
// under a virtual clock says what to expect (path/link_profile.h).
//
//   round trip      the median within 2 % + 0.3 ms of the expected one
//   rate            arrivals of a flood within 5 % of the rate, losses included; on a trace within
//                   3 % of what it lets pass in each window of 10 s
//   lateness        99 % of all packets at most 5 ms later than their due time
//
// Thread rule: free functions that block. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/stats/statistics.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "emulation/link/tun_link.h"

namespace outrider {

struct AccuracyPlan {
  Duration round_trips{0};  // how long to measure; 0: as long as the profile's jitter needs
  Duration flood{0};        // how long, each way; 0: 6 s, or 60 s on a trace
  std::uint64_t seed = 0;
};

struct Accuracy {
  std::vector<Bar> bars;
  Json figures = Json::object();
};

Result<Accuracy> measure_accuracy(const LinkProfile& profile, const AccuracyPlan& plan);

// How long round trips of this profile must be measured so that their median is precise enough for
// the bar: 15 to 120 s.
Duration round_trips_needed(const LinkProfile& profile);

}  // namespace outrider

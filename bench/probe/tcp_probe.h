// Measures a link of either kind with TCP, as programs on it experience it: round trips of one
// byte, and bulk transfer each way.
//
// Thread rule: a free function that blocks; uses threads of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "emulation/link/link.h"
#include "emulation/path/link_profile.h"

namespace outrider {

struct TcpProbePlan {
  int round_trips = 20;
  Duration bulk = std::chrono::seconds(2);  // each way; the first quarter is not counted
};

struct TcpMeasurement {
  std::vector<double> round_trips_ms;
  double up_mbit_s = 0;  // of payload
  double down_mbit_s = 0;
};

// link: a proxy must not be routed yet; an emulated link may also carry other programs. UNAVAILABLE
// for a link that carries nothing for ten seconds.
Result<TcpMeasurement> probe_tcp(Link& link, const TcpProbePlan& plan);

// The performance of TCP over a link, as programs on it experience it, for reports.

// {"link": its kind, "asked": .., "rtt_p50_ms": .., "up_mbit_s": .., "down_mbit_s": ..}, or
// {"error": ..} if nothing could be measured. Starts and ends its own link.
Json link_figures(const LinkProfile& profile, const LinkOptions& options, const TcpProbePlan& plan);

}  // namespace outrider

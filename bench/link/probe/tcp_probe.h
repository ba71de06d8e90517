// Measures a link of either kind with TCP, as the programs on it meet it: round trips of one byte,
// and bulk each way.
//
// Thread rule: a free function that blocks; uses threads of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "bench/link/link.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct TcpProbePlan {
  int round_trips = 20;
  Duration bulk = std::chrono::seconds(2);  // each way; what its first quarter carries is left out
};

struct TcpMeasurement {
  std::vector<double> round_trips_ms;
  double up_mbit_s = 0;  // of payload
  double down_mbit_s = 0;
};

// link: not yet routed, if it is a proxy; an emulated one may carry other programs too.
// UNAVAILABLE for a link that carries nothing for ten seconds.
Result<TcpMeasurement> probe_tcp(Link& link, const TcpProbePlan& plan);

}  // namespace outrider

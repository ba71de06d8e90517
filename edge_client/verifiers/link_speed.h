// How fast bytes travel to a server and back, by calls of its Measure method: what is left of a
// call's time when the round trip is taken off.
//
// Thread rule: blocks; any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "common/base/status.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

// The rate of one direction. Beyond `least` this measurement cannot see: the bytes took less than a
// round trip.
struct Rate {
  double bytes_per_second = 0;
  bool least = false;
};

struct LinkSpeed {
  Rate up, down;
};

// UNIMPLEMENTED by a server that is older than this; CANCELLED; else what calls fail with.
Result<LinkSpeed> measure_link_speed(const RemoteOptions& options, const std::stop_token& stop);

}  // namespace outrider

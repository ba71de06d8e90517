// What TCP makes of a link, as the programs on it meet it, for reports.
//
// Thread rule: blocks; uses threads of its own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/link/link.h"
#include "bench/link/path/link_profile.h"
#include "bench/link/probe/tcp_probe.h"
#include "common/base/json.h"

namespace outrider {

// {"link": its kind, "asked": .., "rtt_p50_ms": .., "up_mbit_s": .., "down_mbit_s": ..}, or
// {"error": ..} where nothing could be measured. A link of its own is started and ended.
Json link_figures(const LinkProfile& profile, const LinkOptions& options, const TcpProbePlan& plan);

}  // namespace outrider

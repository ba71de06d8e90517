// The figures of drafting ahead, and where an answer's time went, for people.
// Definitions: edge_client/metrics/predraft_stats.h, time_spent.h.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "edge_client/metrics/decoding_stats.h"

namespace outrider {

// Aligned lines, each ended; empty if nothing was drafted ahead.
std::string predraft_lines(const PredraftStats& stats);

// Where the time went, and what the controller changed: aligned lines, each ended.
std::string explain_block(const DecodingStats& stats);

}  // namespace outrider

// The charts of a report's page. SPDX-License-Identifier: Apache-2.0
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "bench/report/run_report.h"

namespace outrider {

// How the figures of a report came about, as its charts are marked.
std::string mark_of(const RunReport& report);

// Which strategy is how many times faster than plain decoding at which setting, by round trip.
std::string win_map(const RunReport& report);

// The distribution of end-to-end latencies, a chart for each setting.
std::string latency_charts(const RunReport& report);

// When the tokens of one answer arrived, a lane for each strategy.
std::string arrival_lanes(const RunReport& report);

// Both sides of one answer, as far as it was traced: drafting, rounds, passes and verdicts, a chart
// for each strategy that drafts on the edge; empty where none was.
std::string answer_timeline(const RunReport& report);

std::string acceptance_chart(const RunReport& report);

// Speed-up and bytes over the round trip; empty where all settings of a device have the same.
std::string round_trip_charts(const RunReport& report);

}  // namespace outrider

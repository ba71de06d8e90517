// What a run costs, on its page. SPDX-License-Identifier: Apache-2.0
//
// Thread rule: pure functions.
#pragma once

#include <string>

#include "bench/report/run_report.h"

namespace outrider {

// Dollars over the round trip, by strategy, a chart for each way of paying for the target; empty
// where all settings have the same round trip.
std::string cost_charts(const RunReport& report);

// The section of the page: charts and tables, or that no prices were given.
std::string cost_section(const RunReport& report);

}  // namespace outrider

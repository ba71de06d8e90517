// A report as one self-contained page: no script, no network, no other file.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "bench/report/run_report.h"
#include "common/base/clock.h"

namespace outrider {

// A browser reads the page of a run that goes on anew after this time.
inline constexpr Duration kPageRefresh = std::chrono::seconds(20);

std::string report_page(const RunReport& report);

}  // namespace outrider

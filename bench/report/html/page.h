// A report as one self-contained page: no script, no network, no other file.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/report/run_report.h"

namespace outrider {

std::string report_page(const RunReport& report);

}  // namespace outrider

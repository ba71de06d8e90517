// A cell's figures as the JSON of a report; docs/benchmarks.md describes its fields.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/report/cell_report.h"
#include "common/base/json.h"

namespace outrider {

Json to_json(const Spread& spread);
Json to_json(const CellReport& cell, RunClock clock);

}  // namespace outrider

// What the charts of a page share.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/plot/line_plot.h"
#include "bench/report/run_report.h"

namespace outrider {

// One chart with what it means below it.
std::string chart(const std::string& title, const std::string& caption, PlotPanel panel);

// The strategy's place in the run.
std::size_t place_of(const CellReport& cell, const RunReport& report);

// Curves by their strategies' places, which say how they look everywhere on the page.
using Curves = std::map<std::size_t, PlotSeries>;

PlotSeries& curve_of(const CellReport& cell, const RunReport& report, Curves& curves);
std::vector<PlotSeries> series_of(Curves curves);

// The devices of a report whose cells stand at two round trips at least, each with its valid cells.
std::map<std::string, std::vector<const CellReport*>> devices_over_round_trips(
    const RunReport& report);

}  // namespace outrider

// The charts of a report's page. SPDX-License-Identifier: Apache-2.0
//
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "adapters/plot/line_plot.h"
#include "bench/report/run_report.h"

namespace outrider {

// What a strategy looks like in every chart of a page.
struct CurveStyle {
  std::size_t colour = 0;  // of the plot's colours
  bool dashed = false;
};

// place: of the strategy among those of the run. The first ones, which most runs have, differ most;
// when the colours are used up, they begin anew with dashes.
inline CurveStyle curve_style(std::size_t place) {
  constexpr std::array<std::size_t, 8> kOrder = {0, 4, 2, 3, 5, 1, 6, 7};
  return {kOrder[place % kOrder.size()], place >= kOrder.size()};
}

// What the charts of a page share.

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

// What a run costs, on its page.

// Dollars over the round trip, by strategy, a chart for each way of paying for the target; empty
// where all settings have the same round trip.
std::string cost_charts(const RunReport& report);

// The section of the page: charts and tables, or that no prices were given.
std::string cost_section(const RunReport& report);

}  // namespace outrider

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

// The look of a strategy in every chart of a page.
struct CurveStyle {
  std::size_t colour = 0;   // of the plot's colours
  std::size_t pattern = 0;  // of its dashes and marks
};

// place: index of the strategy in the run. The first ones, which most runs have, differ most in
// colour; neighbours differ in dashes and marks, too, and no style repeats before 32.
inline CurveStyle curve_style(std::size_t place) {
  constexpr std::array<std::size_t, 8> kOrder = {0, 4, 2, 3, 5, 1, 6, 7};
  return {kOrder[place % kOrder.size()], (place + place / kOrder.size()) % kPlotPatterns};
}

// State that the charts of a page share.

// One chart with its caption below it.
std::string chart(const std::string& title, const std::string& caption, PlotPanel panel);

// The strategy's place in the run.
std::size_t place_of(const CellReport& cell, const RunReport& report);

// Curves by their strategies' indices, which determine their look everywhere on the page.
using Curves = std::map<std::size_t, PlotSeries>;

PlotSeries& curve_of(const CellReport& cell, const RunReport& report, Curves& curves);
std::vector<PlotSeries> series_of(Curves curves);

// The report's devices that have cells at two or more round trips, each with its valid cells.
std::map<std::string, std::vector<const CellReport*>> devices_over_round_trips(
    const RunReport& report);

// How the report's figures were made, as shown in the charts.
std::string mark_of(const RunReport& report);

// How many times faster than plain decoding each strategy is at each setting, by round trip.
std::string win_map(const RunReport& report);

// The distribution of end-to-end latencies, one chart per setting.
std::string latency_charts(const RunReport& report);

// When the tokens of one answer arrived, one lane per strategy.
std::string arrival_lanes(const RunReport& report);

// Both sides of one traced answer: drafting, rounds, passes and verdicts, one chart for each
// strategy that drafts on the edge; empty if none was traced.
std::string answer_timeline(const RunReport& report);

std::string acceptance_chart(const RunReport& report);

// Speed-up and bytes over the round trip; empty if a device has only one round trip.
std::string round_trip_charts(const RunReport& report);

// The costs of a run, on its page.

// Dollars over the round trip by strategy, one chart for each way of billing the target; empty if
// all settings have the same round trip.
std::string cost_charts(const RunReport& report);

// The section of the page: charts and tables, or a sentence that no prices were given.
std::string cost_section(const RunReport& report);

}  // namespace outrider

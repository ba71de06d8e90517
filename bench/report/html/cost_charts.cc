// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/cost_charts.h"

#include "bench/report/cost_report.h"
#include "bench/report/html/charts.h"
#include "bench/report/html/markup.h"
#include "bench/report/html/plots.h"

namespace outrider {
namespace {

struct CostKindText {
  CostKind kind;
  const char* caption;
};
constexpr CostKindText kKinds[] = {
    {CostKind::kApiStateless,
     "An API that keeps no session: each round sends the prefix and the drafted tokens again as "
     "input, and pays one token of output. Link bytes and the device's power are added."},
    {CostKind::kApiByThePass,
     "An API that bills as the FSD paper's table 1 has it: the prompt once, and one token of "
     "output "
     "for each pass. Link bytes and the device's power are added."},
    {CostKind::kGpuShared,
     "A GPU of one's own that works for others while this session waits: only its computing is "
     "paid. Link bytes and the device's power are added."},
    {CostKind::kGpuReserved,
     "A GPU of one's own that is kept for this session: all of its time is paid, so waiting costs "
     "too. Link bytes and the device's power are added."}};

std::string cost_chart(const std::string& device, const CostKindText& kind,
                       const std::vector<const CellReport*>& cells, const RunReport& report) {
  Curves curves;
  for (const CellReport* cell : cells) {
    const auto dollars = cell->cost ? cell->cost->all(kind.kind) : std::nullopt;
    if (!dollars) continue;
    curve_of(*cell, report, curves).points.push_back({round_trip_ms(*cell), *dollars});
  }
  if (curves.empty()) return "";
  return chart(std::string(title_of(kind.kind)) + ": " + device, kind.caption,
               {.x_label = "round trip, ms",
                .y_label = "dollars per million output tokens",
                .series = series_of(std::move(curves))});
}

}  // namespace

std::string cost_charts(const RunReport& report) {
  std::string charts;
  for (const auto& [device, cells] : devices_over_round_trips(report)) {
    for (const CostKindText& kind : kKinds) charts += cost_chart(device, kind, cells, report);
  }
  return charts.empty() ? "" : "<div class=\"charts\">" + charts + "</div>";
}

std::string cost_section(const RunReport& report) {
  if (!report.prices) {
    return "<p class=\"soft\">No prices were given, so this page says nothing of cost: "
           "<code>run --price-file FILE</code> adds it.</p>\n";
  }
  const std::string mark = mark_of(report) + ", prices of " + report.prices->date;
  std::string text;
  const std::string charts = cost_charts(report);
  if (!charts.empty()) {
    text +=
        to_html({"Cost over the round trip", mark, charts,
                 "Dollars per million answered tokens over the link's round trip in ms, a curve "
                 "for each strategy, each point one network. Lower is cheaper."});
  }
  text += to_html({"What it costs", mark, to_html(cost_table(costed_cells(report))),
                   "Dollars per million answered tokens, each part by itself: the target by four "
                   "ways of paying for it, link bytes both ways, the device's power. A dash: it "
                   "cannot be had so, or has no price."});
  return text + to_html({"Where drafting on the edge stops paying", mark,
                         to_html(break_even_table(break_evens_of(report))), kBreakEvenCaption});
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bench/report/cell_report.h"
#include "bench/report/cost_report.h"
#include "bench/report/html/markup.h"

namespace outrider {

std::string chart(const std::string& title, const std::string& caption, PlotPanel panel) {
  return captioned(to_inline_svg({.title = title, .note = "", .panels = {std::move(panel)}}),
                   caption);
}

std::size_t place_of(const CellReport& cell, const RunReport& report) {
  std::size_t place = 0;
  while (place < report.cells.size() && report.cells[place].variant != cell.variant) ++place;
  return place;
}

PlotSeries& curve_of(const CellReport& cell, const RunReport& report, Curves& curves) {
  const std::size_t place = place_of(cell, report);
  PlotSeries& curve = curves[place];
  curve.name = cell.variant->name;
  curve.pattern = curve_style(place).pattern;
  curve.colour = curve_style(place).colour;
  return curve;
}

std::vector<PlotSeries> series_of(Curves curves) {
  std::vector<PlotSeries> series;
  for (auto& [place, curve] : curves) {
    std::ranges::sort(curve.points, {}, &PlotPoint::x);
    series.push_back(std::move(curve));
  }
  return series;
}

std::map<std::string, std::vector<const CellReport*>> devices_over_round_trips(
    const RunReport& report) {
  std::map<std::string, std::vector<const CellReport*>> devices;
  std::map<std::string, std::set<double>> round_trips;
  for (const CellReport& cell : report.cells) {
    if (!cell.valid()) continue;
    devices[device_name(cell)].push_back(&cell);
    round_trips[device_name(cell)].insert(round_trip_ms(cell));
  }
  std::erase_if(devices, [&](const auto& one) { return round_trips[one.first].size() < 2; });
  return devices;
}

namespace {

constexpr std::size_t kMaxPoints = 200;  // of a curve
constexpr std::size_t kMaxCharts = 13;   // of one kind

// The report's settings, by the round trip of their links, each with its cells.
struct SettingCells {
  const GridSetting* setting = nullptr;
  double round_trip_ms = 0;
  std::vector<const CellReport*> cells;
};

std::vector<SettingCells> by_setting(const RunReport& report) {
  std::vector<SettingCells> settings;
  for (const CellReport& cell : report.cells) {
    if (settings.empty() || settings.back().setting != cell.setting) {
      settings.push_back({cell.setting, round_trip_ms(cell), {}});
    }
    settings.back().cells.push_back(&cell);
  }
  std::ranges::stable_sort(settings, {}, &SettingCells::round_trip_ms);
  return settings;
}

std::string map_cell(const CellReport& cell, bool is_best) {
  if (!cell.valid()) return "<td class=\"bad\">invalid</td>";
  if (!cell.over_ar) return "<td>–</td>";
  const Estimate& ratio = *cell.over_ar;
  const std::string interval = ratio.interval
                                   ? fmt::format("<br><small>{:.2f}–{:.2f}</small>",
                                                 ratio.interval->low, ratio.interval->high)
                                   : "";
  if (cell.agreement) {
    return fmt::format("<td>{:.2f}×<br><small>own text, {:.0f} % as ar</small></td>", ratio.value,
                       100 * *cell.agreement);
  }
  const std::string gamma =
      cell.variant->best_of.empty() ? "" : fmt::format("<br><small>γ={}</small>", cell.gamma);
  const char* kind = is_best              ? "best"
                     : ratio.value < 0.97 ? "bad"
                     : ratio.value > 1.03 ? "good"
                                          : "";
  return fmt::format("<td class=\"{}\">{:.2f}×{}{}</td>", kind, ratio.value, interval, gamma);
}

PlotSeries distribution(const CellReport& cell, const RunReport& report) {
  const CurveStyle style = curve_style(place_of(cell, report));
  PlotSeries series{.name = cell.variant->name,
                    .marked = false,
                    .pattern = style.pattern,
                    .colour = style.colour};
  const std::vector<double>& samples = cell.e2el_samples;
  series.points.push_back({samples.front() / 1e3, 0});
  const std::size_t step = samples.size() / kMaxPoints + 1;
  for (std::size_t i = 0; i < samples.size(); i += step) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(samples.size());
    series.points.push_back({samples[i] / 1e3, share});
  }
  return series;
}

}  // namespace

std::string mark_of(const RunReport& report) {
  std::set<std::string> marks;
  bool paced = false;
  for (const CellReport& cell : report.cells) {
    if (!cell.link_kind.empty()) marks.insert("link " + cell.link_kind);
    paced = paced || !cell.setting->pass.empty();
  }
  std::string mark = paced ? "devices emulated" : "devices real";
  for (const std::string& one : marks) mark += ", " + one;
  return mark + ", " + name_of(report.run.clock) + " clock";
}

std::string win_map(const RunReport& report) {
  const std::vector<SettingCells> settings = by_setting(report);
  if (settings.empty()) return "";
  std::string table = "<table><thead><tr><th>network and devices</th><th>RTT, ms</th>";
  for (const CellReport* cell : settings.front().cells) {
    table += "<th>" + html_escaped(cell->variant->name) + "</th>";
  }
  table += "</tr></thead><tbody>";
  for (const SettingCells& setting : settings) {
    table += "<tr><td>" + html_escaped(setting.setting->name) + "</td>" +
             fmt::format("<td>{:.0f}</td>", setting.round_trip_ms);
    const std::vector<const CellReport*> best = winners(setting.cells);
    for (const CellReport* cell : setting.cells) {
      table += map_cell(*cell, std::ranges::find(best, cell) != best.end());
    }
    table += "</tr>";
  }
  return table + "</tbody></table>";
}

std::string latency_charts(const RunReport& report) {
  std::string charts = "<div class=\"charts\">";
  std::size_t drawn = 0;
  for (const SettingCells& setting : by_setting(report)) {
    if (++drawn > kMaxCharts) break;
    PlotPanel panel{.x_label = "end-to-end latency, seconds",
                    .y_label = "share of the answers done",
                    .y_end = 1};
    for (const CellReport* cell : setting.cells) {
      if (!cell->e2el_samples.empty()) panel.series.push_back(distribution(*cell, report));
    }
    if (panel.series.empty()) continue;
    charts += chart(setting.setting->name,
                    "The share of the answers at this setting that were complete after so many "
                    "seconds, for each strategy.",
                    std::move(panel));
  }
  return charts + "</div>";
}

std::string acceptance_chart(const RunReport& report) {
  Curves curves;
  for (const CellReport& cell : report.cells) {
    if (cell.accepted_by_position.empty() || !cell.valid()) continue;
    PlotSeries& series = curve_of(cell, report, curves);
    if (!series.points.empty()) continue;  // of the first setting: tokens are the same everywhere
    for (std::size_t i = 0; i < cell.accepted_by_position.size() && i < 16; ++i) {
      series.points.push_back({static_cast<double>(i + 1), cell.accepted_by_position[i]});
    }
  }
  if (curves.empty()) return "<p class=\"soft\">No strategy of this run drafts.</p>";
  return chart(
      "Acceptance by position",
      "The share of the rounds of this depth whose token at that position was accepted. It "
      "shows the first setting; tokens are the same at all settings.",
      {.x_label = "position in the draft",
       .y_label = "share accepted",
       .series = series_of(std::move(curves)),
       .y_end = 1});
}

std::string round_trip_charts(const RunReport& report) {
  std::string charts;
  for (const auto& [device, cells] : devices_over_round_trips(report)) {
    Curves speed, bytes;
    for (const CellReport* cell : cells) {
      const double rtt = round_trip_ms(*cell);
      if (cell->over_ar) {
        curve_of(*cell, report, speed)
            .points.push_back({rtt, cell->over_ar->value, cell->over_ar->interval});
      }
      if (cell->sum.all_tokens <= 0) continue;
      const double sent = cell->sum.wire_up + cell->sum.wire_down;
      curve_of(*cell, report, bytes).points.push_back({rtt, sent / cell->sum.all_tokens});
    }
    charts += chart("Speed-up over the round trip: " + device,
                    "How many times as fast as plain cloud decoding (ar) each strategy decodes, "
                    "with 95 % intervals, over the round trip. Above 1 it is faster.",
                    {.x_label = "round trip, ms",
                     .y_label = "times plain cloud decoding",
                     .series = series_of(std::move(speed))});
    charts += chart("Bytes over the round trip: " + device,
                    "Bytes that the link carries per output token, both ways together.",
                    {.x_label = "round trip, ms",
                     .y_label = "bytes per token, both ways",
                     .series = series_of(std::move(bytes))});
  }
  return charts.empty() ? "" : "<div class=\"charts\">" + charts + "</div>";
}

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
     "A GPU of one's own that serves others while this session waits: only its computing is "
     "paid. Link bytes and the device's power are added."},
    {CostKind::kGpuReserved,
     "A GPU of one's own that is reserved for this session: all of its time is paid, so waiting "
     "costs "
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
    return "<p class=\"soft\">No prices were given, so this page has no costs: "
           "<code>run --price-file FILE</code> adds it.</p>\n";
  }
  const std::string mark = mark_of(report) + ", prices of " + report.prices->date;
  std::string text;
  const std::string charts = cost_charts(report);
  if (!charts.empty()) {
    text += to_html({"Cost over the round trip", mark, charts,
                     "Dollars per million output tokens over the link's round trip in ms, a curve "
                     "for each strategy, each point one network. Lower is cheaper."});
  }
  text += to_html({"What it costs", mark, to_html(cost_table(costed_cells(report))),
                   "Dollars per million output tokens, each part by itself: the target by four "
                   "ways of paying for it, link bytes both ways, the device's power. A dash: it "
                   "cannot be had so, or has no price."});
  return text + to_html({"Where drafting on the edge stops paying", mark,
                         to_html(break_even_table(break_evens_of(report))), kBreakEvenCaption});
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/plots.h"

#include <algorithm>
#include <set>
#include <utility>

#include "bench/report/html/curve_style.h"
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
  curve.dashed = curve_style(place).dashed;
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

}  // namespace outrider

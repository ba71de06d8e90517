// Line plots as SVG of a fixed size: no plotting library, and the same bytes everywhere.
//
//   LinePlot plot;
//   plot.title = "fsd over sd";
//   plot.panels.push_back({.x_label = "γ", .y_label = "speed-up", .series = {{"fsd",
//   {{1, 1.1}}}}}); write_file(path, to_svg(plot));
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/harness/statistics.h"
#include "common/base/status.h"

namespace outrider {

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::optional<Interval> interval = {};  // drawn as a bar
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  // by ascending x
};

// One pair of axes. They begin at 0 and end above the largest value.
struct PlotPanel {
  std::string x_label;
  std::string y_label;
  std::vector<PlotSeries> series;
};

struct LinePlot {
  std::string title;
  std::string note;               // below the title: what was measured how
  std::vector<PlotPanel> panels;  // side by side
};

std::string to_svg(const LinePlot& plot);

// RESOURCE_EXHAUSTED if it cannot be written.
Status write_plot(const LinePlot& plot, const std::string& path);

}  // namespace outrider

// Curves as an SVG of a fixed size: no plotting library, and the same file everywhere.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace outrider {

struct Curve {
  std::string name = {};
  std::vector<std::pair<double, double>> points = {};
  bool dashed = false;
};

struct PlotAxes {
  std::string title = {};
  double right = 1, top = 1;      // both axes begin at 0
  int x_ticks = 4;                // stretches between labels
  const char* x_format = "%.0f";  // of printf, for one double
  bool diagonal = false;          // a thin line from corner to corner
};

std::string line_plot_svg(const std::vector<Curve>& curves, const PlotAxes& axes);

}  // namespace outrider

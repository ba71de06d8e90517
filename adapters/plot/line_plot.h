// Line plots as SVG: no plotting library, and the same bytes everywhere.
//
//   const LinePlot plot{.title = "fsd over sd", .note = "emulated", .panels = {{.x_label = "γ",
//       .y_label = "speed-up", .series = {{.name = "fsd", .points = {{1, 1.1}}}}}}};
//   write_plot(plot, "plot.svg");
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/interval.h"
#include "common/base/output_file.h"
#include "common/base/status.h"

namespace outrider {

// The kind of file that write_plot() and its siblings write.
inline constexpr OutputKind kPlotFile{
    .name = "a plot of Outrider", .is_earlier = [](std::string_view content) {
      return content.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=");
    }};

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::optional<Interval> interval = {};  // drawn as a bar
};

struct PlotSeries {
  // Empty: the series shares the previous one's colour and has no entry in the legend.
  std::string name = {};
  std::vector<PlotPoint> points = {};  // by ascending x
  bool marked = true;                  // a mark at each point
  // Index of the line's dashes and of the marks' shape: 0 is whole, with circles. Curves that
  // overlap are told apart by it.
  std::size_t pattern = 0;
  // Index of the colour; by default the series' place in the legend.
  std::optional<std::size_t> colour = {};
};

// One pair of axes. They begin at 0, and end above the largest value or at x_end and y_end.
struct PlotPanel {
  std::string x_label = {};
  std::string y_label = {};
  std::vector<PlotSeries> series = {};
  std::optional<double> x_end = {};
  std::optional<double> y_end = {};
  bool diagonal = false;  // a thin line from corner to corner
};

struct LinePlot {
  std::string title = {};
  std::string note = {};               // below the title: what was measured, and how
  std::vector<PlotPanel> panels = {};  // side by side
};

// In hex. All have a contrast of 3 or more on white and on the dark page. Indices beyond the last
// colour start again from the first.
std::string_view plot_colour(std::size_t index);
inline constexpr std::size_t kPlotPatterns = 4;

// The marks of an axis from 0 to `end`: the multiples of 1, 2 or 5 times a power of ten, three to
// eight of them.
std::vector<double> round_ticks(double end);

std::string to_svg(const LinePlot& plot);

// For embedding in a page: it fills the width, has no background, and uses the page's text colour.
// Grid lines have the class "grid".
std::string to_inline_svg(const LinePlot& plot);

// Errors are those of write_output().
Status write_plot(const LinePlot& plot, const std::string& path);

}  // namespace outrider

// Loss over steps as an SVG. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "adapters/plot/line_plot.h"
#include "adapters/train/run_files.h"

namespace outrider {
namespace {

std::vector<PlotSeries> curves_of(const std::vector<StepMetrics>& metrics) {
  std::vector<PlotSeries> curves = {{.name = "training", .marked = false}};
  // Means over stretches of steps: some 150 points say all that the eye can see.
  const std::size_t stretch = std::max<std::size_t>(1, metrics.size() / 150);
  double sum = 0;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const auto step = static_cast<double>(metrics[i].step);
    sum += metrics[i].loss;
    if ((i + 1) % stretch == 0) {
      curves[0].points.push_back({step, sum / static_cast<double>(stretch)});
      sum = 0;
    }
    for (const auto& [name, result] : metrics[i].held_out) {
      auto found = std::ranges::find(curves, name, &PlotSeries::name);
      if (found == curves.end()) found = curves.insert(curves.end(), {.name = name});
      found->points.push_back({step, result.loss});
    }
  }
  return curves;
}

}  // namespace

std::string loss_plot_svg(const std::vector<StepMetrics>& metrics, const std::string& title) {
  return to_svg(
      {.title = title,
       .panels = {
           {.x_label = "step", .y_label = "loss, nats per token", .series = curves_of(metrics)}}});
}

}  // namespace outrider

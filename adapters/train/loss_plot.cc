// Loss over steps as an SVG. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "adapters/train/line_plot.h"
#include "adapters/train/run_files.h"

namespace outrider {
namespace {

std::vector<Curve> curves_of(const std::vector<StepMetrics>& metrics) {
  std::vector<Curve> curves = {{"training", {}}};
  // Means over stretches of steps: some 150 points say all that the eye can see.
  const std::size_t stretch = std::max<std::size_t>(1, metrics.size() / 150);
  double sum = 0;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    sum += metrics[i].loss;
    if ((i + 1) % stretch == 0) {
      curves[0].points.emplace_back(metrics[i].step, sum / static_cast<double>(stretch));
      sum = 0;
    }
    for (const auto& [name, result] : metrics[i].held_out) {
      auto found = std::find_if(curves.begin() + 1, curves.end(),
                                [&, &key = name](const Curve& curve) { return curve.name == key; });
      if (found == curves.end()) found = curves.insert(curves.end(), {name, {}});
      found->points.emplace_back(metrics[i].step, result.loss);
    }
  }
  return curves;
}

}  // namespace

std::string loss_plot_svg(const std::vector<StepMetrics>& metrics, const std::string& title) {
  const std::vector<Curve> curves = curves_of(metrics);
  PlotAxes axes{.title = title + ": loss (nats per token) over steps", .right = 1, .top = 0.01};
  for (const Curve& curve : curves) {
    for (const auto& [step, loss] : curve.points) {
      axes.right = std::max(axes.right, step);
      axes.top = std::max(axes.top, loss);
    }
  }
  axes.top = std::ceil(axes.top);
  return line_plot_svg(curves, axes);
}

}  // namespace outrider

// Loss over steps as an SVG of a fixed size: no plotting library, and the same file everywhere.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "adapters/train/run_files.h"

namespace outrider {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 60, kRight = 150, kTop = 40, kBottom = 45;
constexpr std::array<const char*, 4> kColours = {"#4477aa", "#cc6677", "#228833", "#aa3377"};

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // step, loss
};

std::string number(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

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

class Plot final {
 public:
  explicit Plot(const std::vector<Curve>& curves) {
    for (const Curve& curve : curves) {
      for (const auto& [step, loss] : curve.points) {
        last_step_ = std::max(last_step_, step);
        top_loss_ = std::max(top_loss_, loss);
      }
    }
    top_loss_ = std::ceil(top_loss_);
  }

  std::string x(double step) const {
    return number(kLeft + step / last_step_ * (kWidth - kLeft - kRight), "%.1f");
  }
  std::string y(double loss) const {
    return number(kHeight - kBottom - loss / top_loss_ * (kHeight - kTop - kBottom), "%.1f");
  }

  std::string grid() const {
    std::string svg;
    for (int i = 0; i <= 4; ++i) {
      const double loss = top_loss_ * i / 4, step = last_step_ * i / 4;
      svg += "<line x1=\"" + x(0) + "\" x2=\"" + x(last_step_) + "\" y1=\"" + y(loss) + "\" y2=\"" +
             y(loss) + "\" stroke=\"#ddd\"/>\n";
      svg += "<text x=\"" + number(kLeft - 8, "%.0f") + "\" y=\"" + y(loss) +
             "\" text-anchor=\"end\" dominant-baseline=\"middle\">" + number(loss, "%.2f") +
             "</text>\n";
      svg += "<text x=\"" + x(step) + "\" y=\"" + number(kHeight - kBottom + 20, "%.0f") +
             "\" text-anchor=\"middle\">" + number(step, "%.0f") + "</text>\n";
    }
    return svg;
  }

  std::string line(const Curve& curve, std::size_t index) const {
    const std::string colour = kColours[index % kColours.size()];
    std::string svg =
        "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" + colour + "\" points=\"";
    for (const auto& [step, loss] : curve.points) svg += x(step) + "," + y(loss) + " ";
    svg += "\"/>\n<text fill=\"" + colour + "\" x=\"" + number(kWidth - kRight + 10, "%.0f") +
           "\" y=\"" + number(kTop + 18.0 * static_cast<double>(index), "%.0f") + "\">" +
           curve.name + "</text>\n";
    return svg;
  }

 private:
  double last_step_ = 1, top_loss_ = 0.01;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string loss_plot_svg(const std::vector<StepMetrics>& metrics, const std::string& title) {
  std::vector<Curve> curves = curves_of(metrics);
  for (Curve& curve : curves) curve.name = escaped(curve.name);
  const Plot plot(curves);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth, "%.0f") +
                    "\" height=\"" + number(kHeight, "%.0f") +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"" +
                    number(kLeft, "%.0f") + "\" y=\"22\" font-size=\"14\">" + escaped(title) +
                    ": loss (nats per token) over steps</text>\n";
  svg += plot.grid();
  for (std::size_t i = 0; i < curves.size(); ++i) svg += plot.line(curves[i], i);
  return svg + "</svg>\n";
}

}  // namespace outrider

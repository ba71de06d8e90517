// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/line_plot.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace outrider {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 60, kRight = 170, kTop = 40, kBottom = 45;
constexpr std::array<const char*, 8> kColours = {"#4477aa", "#cc6677", "#228833", "#aa3377",
                                                 "#ccbb44", "#66ccee", "#999933", "#555555"};

std::string number(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

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

class Plot final {
 public:
  explicit Plot(const PlotAxes& axes) : axes_(axes) {}

  std::string grid() const {
    std::string svg;
    for (int i = 0; i <= 4; ++i) {
      const double value = axes_.top * i / 4;
      svg += segment(0, value, axes_.right, value, "#ddd") + "<text x=\"" +
             number(kLeft - 8, "%.0f") + "\" y=\"" + y(value) +
             "\" text-anchor=\"end\" dominant-baseline=\"middle\">" + number(value, "%.2f") +
             "</text>\n";
    }
    for (int i = 0; i <= axes_.x_ticks; ++i) {
      const double value = axes_.right * i / axes_.x_ticks;
      svg += "<text x=\"" + x(value) + "\" y=\"" + number(kHeight - kBottom + 20, "%.0f") +
             "\" text-anchor=\"middle\">" + number(value, axes_.x_format) + "</text>\n";
    }
    return axes_.diagonal ? svg + segment(0, 0, axes_.right, axes_.top, "#aaa") : svg;
  }

  std::string line(const Curve& curve, std::size_t index) const {
    const std::string colour = kColours[index % kColours.size()];
    std::string svg = "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" + colour +
                      (curve.dashed ? "\" stroke-dasharray=\"4 3" : "") + "\" points=\"";
    for (const auto& [at, value] : curve.points) svg += x(at) + "," + y(value) + " ";
    return svg + "\"/>\n<text fill=\"" + colour + "\" x=\"" + number(kWidth - kRight + 10, "%.0f") +
           "\" y=\"" + number(kTop + 18.0 * static_cast<double>(index), "%.0f") + "\">" +
           escaped(curve.name) + "</text>\n";
  }

 private:
  std::string x(double at) const {
    return number(kLeft + at / axes_.right * (kWidth - kLeft - kRight), "%.1f");
  }
  std::string y(double value) const {
    return number(kHeight - kBottom - value / axes_.top * (kHeight - kTop - kBottom), "%.1f");
  }
  std::string segment(double x1, double y1, double x2, double y2, const char* colour) const {
    return "<line x1=\"" + x(x1) + "\" x2=\"" + x(x2) + "\" y1=\"" + y(y1) + "\" y2=\"" + y(y2) +
           "\" stroke=\"" + colour + "\"/>\n";
  }

  const PlotAxes& axes_;
};

}  // namespace

std::string line_plot_svg(const std::vector<Curve>& curves, const PlotAxes& axes) {
  const Plot plot(axes);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth, "%.0f") +
                    "\" height=\"" + number(kHeight, "%.0f") +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"" +
                    number(kLeft, "%.0f") + "\" y=\"22\" font-size=\"14\">" + escaped(axes.title) +
                    "</text>\n";
  svg += plot.grid();
  for (std::size_t i = 0; i < curves.size(); ++i) svg += plot.line(curves[i], i);
  return svg + "</svg>\n";
}

}  // namespace outrider

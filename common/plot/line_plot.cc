// SPDX-License-Identifier: Apache-2.0
#include "bench/plot/line_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace outrider {
namespace {

constexpr double kPanelWidth = 460, kHeight = 400, kLeft = 60, kRight = 20, kTop = 70, kBottom = 80;
constexpr int kTicks = 5;
constexpr std::array<const char*, 6> kColours = {"#4477aa", "#cc6677", "#228833",
                                                 "#aa3377", "#ccbb44", "#66ccee"};

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
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

// The next of 1, 2, 2.5, 4, 5 times a power of ten, times kTicks: an axis with round marks.
double round_up(double value) {
  if (!(value > 0)) return 1;
  const double raw = value / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double step : {1.0, 2.0, 2.5, 4.0, 5.0}) {
    if (step * power >= raw * (1 - 1e-9)) return step * power * kTicks;
  }
  return 10 * power * kTicks;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) + escaped(text) +
         "</text>\n";
}

class Panel final {
 public:
  Panel(const PlotPanel& panel, double left) : panel_(panel), left_(left + kLeft) {
    double most_x = 0, most_y = 0;
    for (const PlotSeries& series : panel.series) {
      for (const PlotPoint& point : series.points) {
        most_x = std::max(most_x, point.x);
        most_y = std::max({most_y, point.y, point.interval ? point.interval->high : 0});
      }
    }
    x_end_ = round_up(most_x);
    y_end_ = round_up(most_y);
  }

  std::string svg() const {
    std::string svg = axes();
    for (std::size_t i = 0; i < panel_.series.size(); ++i) svg += line(i);
    return svg;
  }

 private:
  double x(double value) const { return left_ + value / x_end_ * (kPanelWidth - kLeft - kRight); }
  double y(double value) const {
    return kHeight - kBottom - value / y_end_ * (kHeight - kTop - kBottom);
  }

  std::string axes() const {
    std::string svg;
    for (int i = 0; i <= kTicks; ++i) {
      const double across = x_end_ * i / kTicks, up = y_end_ * i / kTicks;
      svg += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                    x(0), x(x_end_), y(up), y(up));
      svg += text_at(left_ - 8, y(up) + 4, "end", format("%.4g", up));
      svg += text_at(x(across), kHeight - kBottom + 18, "middle", format("%.4g", across));
    }
    svg += text_at(x(x_end_ / 2), kHeight - kBottom + 36, "middle", panel_.x_label);
    return svg + text_at(left_, kTop - 10, "start", panel_.y_label);
  }

  std::string line(std::size_t index) const {
    const PlotSeries& series = panel_.series[index];
    const char* colour = kColours[index % kColours.size()];
    std::string svg =
        format("<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"%s\" points=\"", colour);
    for (const PlotPoint& point : series.points) {
      svg += format("%.1f,%.1f ", x(point.x), y(point.y));
    }
    svg += "\"/>\n";
    for (const PlotPoint& point : series.points) {
      svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", x(point.x),
                    y(point.y), colour);
      if (!point.interval) continue;
      svg +=
          format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n",
                 x(point.x), x(point.x), y(point.interval->low), y(point.interval->high), colour);
    }
    const double legend_x = left_ + 125.0 * static_cast<double>(index % 3);
    const double legend_y = kHeight - kBottom + 54 + 16.0 * static_cast<double>(index / 3);
    return svg + format("<g fill=\"%s\">", colour) +
           text_at(legend_x, legend_y, "start", series.name) + "</g>\n";
  }

  const PlotPanel& panel_;
  const double left_;
  double x_end_ = 1;
  double y_end_ = 1;
};

}  // namespace

std::string to_svg(const LinePlot& plot) {
  const double width =
      kPanelWidth * static_cast<double>(std::max<std::size_t>(plot.panels.size(), 1));
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
      "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      width, kHeight);
  svg += "<g font-size=\"14\">" + text_at(kLeft, 22, "start", plot.title) + "</g>\n";
  svg += text_at(kLeft, 40, "start", plot.note);
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    svg += Panel(plot.panels[i], kPanelWidth * static_cast<double>(i)).svg();
  }
  return svg + "</svg>\n";
}

Status write_plot(const LinePlot& plot, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << to_svg(plot);
  out.close();
  if (!out) return resource_exhausted(path + ": cannot be written");
  return {};
}

}  // namespace outrider

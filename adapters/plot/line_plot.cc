// SPDX-License-Identifier: Apache-2.0
#include "adapters/plot/line_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace outrider {
namespace {

constexpr double kPanelWidth = 460, kLeft = 60, kRight = 20, kTop = 70;
constexpr double kAxesEnd = 320;  // y of the x axis
constexpr double kLegendTop = kAxesEnd + 56, kLegendLine = 16, kLegendWidth = 200;
constexpr std::size_t kLegendColumns = 2;
constexpr double kSample = 28;  // width of a line in the legend
constexpr int kMaxTicks = 7;    // beside the one at 0
constexpr std::array<std::string_view, 8> kColours = {"#4477aa", "#cc6677", "#228833", "#b04a8a",
                                                      "#a38a00", "#1f93b0", "#c06a10", "#7a7a7a"};
constexpr std::array<std::string_view, kPlotPatterns> kDashes = {"", "7 3", "2 2", "9 3 2 3"};
// Paths around 0, 0: a circle, a square, a triangle, a diamond.
constexpr std::array<std::string_view, kPlotPatterns> kMarks = {
    "M-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z", "M-2.3 -2.3h4.6v4.6h-4.6z",
    "M0 -3.2l3 5.4h-6z", "M0 -3.3l3.3 3.3l-3.3 3.3l-3.3 -3.3z"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

constexpr double kRounding = 1e-9;  // of divisions, in parts of their results

// From one tick to the next: the least of 1, 2 and 5 times a power of ten with few enough ticks.
double tick_step(double end) {
  if (!(end > 0)) return 1;
  const double least = end / kMaxTicks * (1 - kRounding);
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= least) return step * power;
  }
  return 10 * power;
}

// Where an axis ends whose largest value this is: at a tick.
double axis_end(double value) {
  const double step = tick_step(value);
  return std::max(std::ceil(value / step * (1 - kRounding)), 1.0) * step;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

class Panel final {
 public:
  Panel(const PlotPanel& panel, double left) : panel_(panel), left_(left + kLeft) {
    double max_x = 0, max_y = 0;
    for (const PlotSeries& series : panel.series) {
      for (const PlotPoint& point : series.points) {
        max_x = std::max(max_x, point.x);
        max_y = std::max({max_y, point.y, point.interval ? point.interval->high : 0});
      }
    }
    x_end_ = panel.x_end.value_or(axis_end(max_x));
    y_end_ = panel.y_end.value_or(axis_end(max_y));
  }

  std::string svg() const {
    std::string svg = axes();
    std::size_t named = 0, shown = 0;
    for (const PlotSeries& series : panel_.series) {
      if (!series.name.empty()) {
        shown = series.colour.value_or(named);
        svg += legend(series, named++, plot_colour(shown));
      }
      svg += line(series, plot_colour(shown));
    }
    return svg;
  }

 private:
  double x(double value) const { return left_ + value / x_end_ * (kPanelWidth - kLeft - kRight); }
  double y(double value) const { return kAxesEnd - value / y_end_ * (kAxesEnd - kTop); }

  std::string segment(double x1, double y1, double x2, double y2, std::string_view stroke) const {
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x(x1),
        y(y1), x(x2), y(y2), stroke);
  }

  std::string grid_line(double up) const {
    return fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
        "stroke=\"#ddd\"/>\n",
        x(0), y(up), x(x_end_), y(up));
  }

  // Small whole numbers get one tick each.
  std::vector<double> ticks_across() const {
    const bool few = x_end_ == std::floor(x_end_) && x_end_ > 1 && x_end_ <= 10;
    if (!few) return round_ticks(x_end_);
    std::vector<double> ticks;
    for (int tick = 0; tick <= x_end_; ++tick) ticks.push_back(tick);
    return ticks;
  }

  std::string axes() const {
    std::string svg;
    for (const double up : round_ticks(y_end_)) {
      svg += grid_line(up);
      svg += text_at(left_ - 8, y(up) + 4, "end", fmt::format("{:.4g}", up));
    }
    for (const double across : ticks_across()) {
      svg += text_at(x(across), kAxesEnd + 18, "middle", fmt::format("{:.4g}", across));
    }
    if (panel_.diagonal) svg += segment(0, 0, x_end_, y_end_, "#aaa");
    svg += text_at(x(x_end_ / 2), kAxesEnd + 36, "middle", panel_.x_label);
    return svg + text_at(left_, kTop - 10, "start", panel_.y_label);
  }

  static std::string stroke_of(const PlotSeries& series, std::string_view colour) {
    const std::string_view dashes = kDashes[series.pattern % kPlotPatterns];
    return fmt::format("fill=\"none\" stroke-width=\"1.5\" stroke=\"{}\"{}", colour,
                       dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
  }

  static std::string mark(const PlotSeries& series, double across, double down,
                          std::string_view colour) {
    return fmt::format("<path transform=\"translate({:.1f} {:.1f})\" fill=\"{}\" d=\"{}\"/>\n",
                       across, down, colour, kMarks[series.pattern % kPlotPatterns]);
  }

  std::string line(const PlotSeries& series, std::string_view stroke) const {
    std::string svg = "<polyline " + stroke_of(series, stroke) + " points=\"";
    for (const PlotPoint& point : series.points) {
      svg += fmt::format("{:.1f},{:.1f} ", x(point.x), y(point.y));
    }
    svg += "\"/>\n";
    for (const PlotPoint& point : series.points) {
      if (series.marked) svg += mark(series, x(point.x), y(point.y), stroke);
      if (!point.interval) continue;
      svg += segment(point.x, point.interval->low, point.x, point.interval->high, stroke);
    }
    return svg;
  }

  // A sample of the line, and the name beside it.
  std::string legend(const PlotSeries& series, std::size_t index, std::string_view colour) const {
    const std::size_t row = index / kLegendColumns, column = index % kLegendColumns;
    const double at = left_ + kLegendWidth * static_cast<double>(column);
    const double down = kLegendTop + kLegendLine * static_cast<double>(row), middle = down - 4;
    std::string svg = fmt::format(
        "<line class=\"sample\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", at,
        middle, at + kSample, middle, stroke_of(series, colour));
    if (series.marked) svg += mark(series, at + kSample / 2, middle, colour);
    return svg + text_at(at + kSample + 6, down, "start", series.name);
  }

  const PlotPanel& panel_;
  const double left_;
  double x_end_ = 1;
  double y_end_ = 1;
};

double height_of(const LinePlot& plot) {
  std::size_t most = 0;
  for (const PlotPanel& panel : plot.panels) {
    const auto named = std::ranges::count_if(
        panel.series, [](const PlotSeries& series) { return !series.name.empty(); });
    most = std::max(most, static_cast<std::size_t>(named));
  }
  const std::size_t lines = (most + kLegendColumns - 1) / kLegendColumns;
  return kLegendTop + kLegendLine * static_cast<double>(lines);
}

double width_of(const LinePlot& plot) {
  return kPanelWidth * static_cast<double>(std::max<std::size_t>(plot.panels.size(), 1));
}

// The content of the <svg> element.
std::string content(const LinePlot& plot) {
  std::string svg = "<g font-size=\"14\">" + text_at(kLeft, 22, "start", plot.title) + "</g>\n";
  svg += text_at(kLeft, 40, "start", plot.note);
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    svg += Panel(plot.panels[i], kPanelWidth * static_cast<double>(i)).svg();
  }
  return svg;
}

}  // namespace

std::string_view plot_colour(std::size_t index) {
  return kColours[index % kColours.size()];
}

std::vector<double> round_ticks(double end) {
  const double step = tick_step(end);
  std::vector<double> ticks;
  for (int i = 0; i * step <= end * (1 + kRounding); ++i) ticks.push_back(i * step);
  return ticks;
}

std::string to_svg(const LinePlot& plot) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             width_of(plot), height_of(plot)) +
         content(plot) + "</svg>\n";
}

std::string to_inline_svg(const LinePlot& plot) {
  return fmt::format(
             "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\" "
             "fill=\"currentColor\" font-family=\"sans-serif\" font-size=\"12\">\n",
             width_of(plot), height_of(plot), escaped(plot.title)) +
         content(plot) + "</svg>\n";
}

Status write_plot(const LinePlot& plot, const std::string& path) {
  return write_output(path, kPlotFile, to_svg(plot));
}

}  // namespace outrider

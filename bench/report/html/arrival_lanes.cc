// The time line of one answer. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "adapters/plot/line_plot.h"
#include "bench/report/html/charts.h"
#include "bench/report/html/curve_style.h"
#include "bench/report/html/markup.h"

namespace outrider {
namespace {

constexpr double kWidth = 640, kLeft = 110, kRight = 16, kLane = 44, kTop = 24;

double end_ms(const AnswerRecord& record) {
  return record.chunk_at.empty() ? 0 : to_ms(record.chunk_at.back());
}

// A bar for each arrival, as high as it brought tokens.
std::string lane(const AnswerRecord& record, const std::string& name, std::size_t place, double top,
                 double ms_per_px) {
  std::string svg = svg_text(kLeft - 8, top + kLane - 12, "end", name);
  const double floor = top + kLane - 8;
  svg += fmt::format(
      "<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>",
      kLeft, floor, kWidth - kRight, floor);
  for (std::size_t i = 0; i < record.chunk_at.size() && i < record.chunk_tokens.size(); ++i) {
    const double tokens = static_cast<double>(std::min<std::uint64_t>(record.chunk_tokens[i], 8));
    const double height = 4 + tokens * 3.5;
    svg +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"2\" height=\"{:.1f}\" fill=\"{}\"/>",
                    kLeft + to_ms(record.chunk_at[i]) / ms_per_px, floor - height, height,
                    plot_colour(curve_style(place).colour));
  }
  return svg + svg_text(std::min(kLeft + end_ms(record) / ms_per_px + 6, kWidth - 50), floor - 2,
                        "start", fmt::format("{:.2f} s", end_ms(record) / 1e3));
}

std::string arrivals_of(const std::vector<const FinishedAnswer*>& answers, const RunReport& report,
                        const std::string& title) {
  double longest = 1;
  for (const FinishedAnswer* one : answers) longest = std::max(longest, end_ms(one->answer.record));
  const double ms_per_px = longest / (kWidth - kLeft - kRight - 60);
  const double floor = kTop + kLane * static_cast<double>(answers.size());
  const double height = floor + 40;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\" fill=\"currentColor\" "
      "font-family=\"sans-serif\" font-size=\"12\">",
      kWidth, height, html_escaped(title));
  svg += svg_text(4, 14, "start", title);
  double top = kTop;
  for (const FinishedAnswer* one : answers) {
    svg += lane(one->answer.record, report.variant_names[one->job.variant], one->job.variant, top,
                ms_per_px);
    top += kLane;
  }
  for (int i = 0; i <= 4; ++i) {
    const double ms = longest * i / 4;
    svg += svg_text(kLeft + ms / ms_per_px, floor + 14, "middle", fmt::format("{:.3g}", ms / 1e3));
  }
  svg +=
      svg_text(kLeft + longest / 2 / ms_per_px, floor + 30, "middle", "seconds since the request");
  return svg + "</svg>";
}

}  // namespace

std::string arrival_lanes(const RunReport& report) {
  std::string lanes = "<div class=\"lanes\">";
  for (std::size_t setting = 0; setting < report.setting_names.size(); ++setting) {
    std::vector<const FinishedAnswer*> answers;
    for (const FinishedAnswer& one : report.examples) {
      if (one.job.setting == setting && !one.failed()) answers.push_back(&one);
    }
    std::ranges::sort(answers, {}, [](const FinishedAnswer* one) { return one->job.variant; });
    if (answers.empty()) continue;
    lanes +=
        captioned(arrivals_of(answers, report, report.setting_names[setting]),
                  "Arrivals of tokens at the user, a lane for each strategy; a bar's height is "
                  "how many tokens came at once.");
  }
  return lanes + "</div>";
}

}  // namespace outrider

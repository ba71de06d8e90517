// What measure_exits() found, for people and scripts. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "adapters/exits/measure.h"
#include "adapters/train/line_plot.h"
#include "common/base/json.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string title_of(const TextResult& result) {
  char text[160];
  std::snprintf(text, sizeof text, "%.100s, T = %.2g", result.text.c_str(), result.temperature);
  return text;
}

bool is_chosen(const MeasureReport& report, std::int32_t layer) {
  for (const std::int32_t one : report.chosen) {
    if (one == layer) return true;
  }
  return false;
}

OrderedJson to_json(const ExitResult& exit) {
  return {{"layer", exit.layer},
          {"named", exit.named},
          {"mean_confidence", exit.mean_confidence},
          {"error_before", exit.error_before},
          {"error", exit.error}};
}

}  // namespace

std::string report_json(const MeasureReport& report) {
  OrderedJson json = {{"chosen", report.chosen}, {"results", OrderedJson::array()}};
  for (const TextResult& result : report.results) {
    OrderedJson one = {{"text", result.text},
                       {"temperature", result.temperature},
                       {"passes", result.passes},
                       {"tokens_per_pass", result.tokens_per_pass},
                       {"best_at_half", result.best_at_half.named},
                       {"three_quarters_together", result.three_quarters},
                       {"chosen_together", result.chosen},
                       {"error_chosen", result.error_chosen},
                       {"exits", OrderedJson::array()}};
    for (const ExitResult& exit : result.exits) one["exits"].push_back(to_json(exit));
    json["results"].push_back(std::move(one));
  }
  return json.dump();
}

// The chosen exits' bins, put together by their place.
std::string reliability_svg(const MeasureReport& report) {
  constexpr int kParts = 15;
  std::vector<Curve> curves;
  for (const TextResult& result : report.results) {
    std::vector<ReliabilityBin> parts(kParts);
    for (const ExitResult& exit : result.exits) {
      if (!is_chosen(report, exit.layer)) continue;
      for (const ReliabilityBin& bin : exit.bins) {
        const int at = std::min(static_cast<int>(bin.confidence * kParts), kParts - 1);
        ReliabilityBin& part = parts[static_cast<std::size_t>(at)];
        const auto count = static_cast<double>(bin.count);
        part.confidence += bin.confidence * count;
        part.right += bin.right * count;
        part.count += bin.count;
      }
    }
    Curve curve{title_of(result), {}};
    for (const ReliabilityBin& part : parts) {
      const auto count = static_cast<double>(part.count);
      if (part.count > 0) curve.points.emplace_back(part.confidence / count, part.right / count);
    }
    curves.push_back(std::move(curve));
  }
  return line_plot_svg(curves, {.title = "Part named right over confidence, chosen exits",
                                .x_format = "%.2f",
                                .diagonal = true});
}

std::string depth_svg(const MeasureReport& report) {
  std::vector<Curve> curves;
  for (const bool confidence : {false, true}) {
    for (const TextResult& result : report.results) {
      Curve curve{title_of(result) + (confidence ? ": confidence" : ""), {}, confidence};
      for (const ExitResult& exit : result.exits) {
        curve.points.emplace_back(exit.layer, confidence ? exit.mean_confidence : exit.named);
      }
      curves.push_back(std::move(curve));
    }
  }
  return line_plot_svg(curves, {.title = "Whole outcome named right, over the exit's layer",
                                .right = static_cast<double>(report.num_layers),
                                .x_ticks = report.num_layers});
}

}  // namespace outrider

// Prints the figures of measure_exits() for people and scripts. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "adapters/exits/measure.h"
#include "adapters/plot/line_plot.h"
#include "common/base/json.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string title_of(const TextResult& result) {
  return fmt::format("{:.100}, T = {:.2g}", result.text, result.temperature);
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
          {"error", exit.error},
          {"token_agreement", exit.token_agreement},
          {"took_fewer", exit.took_fewer},
          {"took_more", exit.took_more},
          {"other_token", exit.other_token}};
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

// The chosen exits' bins, merged by position.
std::string reliability_svg(const MeasureReport& report) {
  constexpr int kParts = 15;
  PlotPanel panel{.x_label = "confidence", .y_label = "named right", .x_end = 1, .y_end = 1};
  panel.diagonal = true;
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
    PlotSeries series{.name = title_of(result)};
    for (const ReliabilityBin& part : parts) {
      const auto count = static_cast<double>(part.count);
      if (part.count > 0) series.points.push_back({part.confidence / count, part.right / count});
    }
    panel.series.push_back(std::move(series));
  }
  return to_svg({.title = "Reliability of the chosen exits", .panels = {std::move(panel)}});
}

std::string depth_svg(const MeasureReport& report) {
  PlotPanel panel{.x_label = "layer of the exit", .y_label = "whole outcome named right"};
  panel.x_end = report.num_layers;
  panel.y_end = 1;
  for (const TextResult& result : report.results) {
    PlotSeries named{.name = title_of(result)}, confidence{.pattern = 1};
    for (const ExitResult& exit : result.exits) {
      named.points.push_back({static_cast<double>(exit.layer), exit.named});
      confidence.points.push_back({static_cast<double>(exit.layer), exit.mean_confidence});
    }
    panel.series.push_back(std::move(named));
    panel.series.push_back(std::move(confidence));
  }
  return to_svg({.title = "Match and confidence by depth",
                 .note = "dashed: mean confidence",
                 .panels = {std::move(panel)}});
}

}  // namespace outrider

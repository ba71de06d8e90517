// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/run_files.h"

#include <algorithm>

#include "adapters/plot/line_plot.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/output_file.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMaxMetricsBytes = std::int64_t{1} << 30;

// A run that is resumed reads it and goes on with it.
constexpr OutputKind kMetricsFile{
    .name = "a run's metrics.jsonl",
    .is_earlier = [](std::string_view content) { return content.starts_with("{\"step\":"); },
    .is_state = true};

OrderedJson to_json(const StepMetrics& metrics) {
  OrderedJson json = {{"step", metrics.step},
                      {"loss", metrics.loss},
                      {"learning_rate", metrics.learning_rate},
                      {"gradient_norm", metrics.gradient_norm},
                      {"tokens_per_s", metrics.tokens_per_s}};
  for (const auto& [name, result] : metrics.held_out) {
    json["heldout"][name] = {{"loss", result.loss}, {"exact", result.exact}};
  }
  return json;
}

Result<StepMetrics> from_json(const std::string& line, const std::string& where) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(line, where));
  const auto number = [&](const Json& from, const char* key) {
    return from.is_object() && from.contains(key) && from[key].is_number() ? from[key].get<double>()
                                                                           : 0.0;
  };
  StepMetrics metrics;
  metrics.step = static_cast<std::int64_t>(number(json, "step"));
  if (metrics.step < 1) return data_loss(where + ": no \"step\" of 1 or more");
  metrics.loss = number(json, "loss");
  metrics.learning_rate = number(json, "learning_rate");
  metrics.gradient_norm = number(json, "gradient_norm");
  metrics.tokens_per_s = number(json, "tokens_per_s");
  if (json.contains("heldout") && json["heldout"].is_object()) {
    for (const auto& [name, result] : json["heldout"].items()) {
      metrics.held_out[name] = {number(result, "loss"), number(result, "exact")};
    }
  }
  return metrics;
}

std::vector<PlotSeries> curves_of(const std::vector<StepMetrics>& metrics) {
  std::vector<PlotSeries> curves = {{.name = "training", .marked = false}};
  // Means over groups of steps: about 150 points are as many as a plot can show.
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

Result<std::vector<StepMetrics>> read_metrics(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxMetricsBytes));
  std::vector<StepMetrics> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    OUTRIDER_ASSIGN_OR_RETURN(StepMetrics metrics,
                              from_json(line, path + ", line " + std::to_string(all.size() + 1)));
    all.push_back(std::move(metrics));
  }
  return all;
}

Result<MetricsFile> MetricsFile::open(const std::string& path, std::int64_t steps_kept) {
  MetricsFile file;
  if (steps_kept > 0) {
    OUTRIDER_ASSIGN_OR_RETURN(file.all_, read_metrics(path));
    std::erase_if(file.all_, [&](const StepMetrics& one) { return one.step > steps_kept; });
  }
  std::string text;
  for (const StepMetrics& metrics : file.all_) text += to_json(metrics).dump() + "\n";
  OUTRIDER_RETURN_IF_ERROR(write_output(path, kMetricsFile, text));
  file.path_ = path;
  file.out_.open(path, std::ios::binary | std::ios::app);
  if (!file.out_) return resource_exhausted(path + ": cannot be written");
  return file;
}

Status MetricsFile::append(const StepMetrics& metrics) {
  all_.push_back(metrics);
  out_ << to_json(metrics).dump() << std::endl;
  return out_ ? Status() : resource_exhausted(path_ + ": cannot be written");
}

std::string loss_plot_svg(const std::vector<StepMetrics>& metrics, const std::string& title) {
  return to_svg(
      {.title = title,
       .panels = {
           {.x_label = "step", .y_label = "loss, nats per token", .series = curves_of(metrics)}}});
}

}  // namespace outrider

// The paper's ablations (section 4.3) on our processes: queues (table 7), workers (figure 4a),
// draft length (figure 4b). SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/checks/checks.h"
#include "bench/checks/grid_flags.h"
#include "bench/harness/summary.h"
#include "common/plot/line_plot.h"

namespace outrider {
namespace {

struct AblateOptions {
  GridFlags grid;
  std::string what;
  std::vector<int> values;  // workers or draft lengths; empty: the paper's
  std::string out;          // an SVG; empty: none
};

std::string queue_name(const std::string& client, const std::string& server, int workers) {
  return client + "/" + server + " " + std::to_string(workers) + "T";
}

GridVariant worker_variant(const std::string& name, int workers) {
  GridVariant variant = variant_of("fsd");
  variant.name = name;
  variant.edge_flags = {"--predraft-workers=" + std::to_string(workers)};
  return variant;
}

std::optional<Estimate> miss_rate(const GridCell& cell) {
  return estimate(cell.answers, &AnswerFigures::miss_rate);
}

Json variant_json(const GridResult& result, const GridCell& cell) {
  const std::optional<Estimate> misses = miss_rate(cell);
  Json json = cell_json(result, cell);
  json["miss_rate"] = misses ? to_json(*misses) : Json();
  return json;
}

Json cells_json(const GridResult& result) {
  Json cells = Json::array();
  for (const GridCell& cell : result.cells) cells.push_back(variant_json(result, cell));
  return cells;
}

PlotPoint point(double x, const Estimate& estimate) {
  return {x, estimate.value, estimate.interval};
}

// ------------------------------------------------------------------------------------- queues

// Whether no other order misses less than priority at both ends does, beyond the intervals.
bool priority_is_best(const GridResult& result, const std::string& setting, int workers) {
  const GridCell* both = result.find(setting, queue_name("priority", "priority", workers));
  const std::optional<Estimate> own = both != nullptr ? miss_rate(*both) : std::nullopt;
  if (!own) return false;
  const double low = own->interval ? own->interval->low : own->value;
  for (const GridCell& cell : result.cells) {
    const std::optional<Estimate> other = miss_rate(cell);
    const bool same_count = cell.variant.ends_with(" " + std::to_string(workers) + "T");
    if (!same_count || cell.setting != setting || !other) continue;
    const double high = other->interval ? other->interval->high : other->value;
    if (other->value < own->value && high < low) return false;
  }
  return true;
}

std::string queue_table(const GridResult& result, const std::vector<int>& workers) {
  std::string text = "client/server       ";
  for (const int count : workers) text += "      r (" + std::to_string(count) + "T)      ";
  text += "\n";
  for (const char* client : {"priority", "random", "fifo"}) {
    for (const char* server : {"priority", "fifo"}) {
      text += fmt::format("{:20}", std::string(client) + "/" + server);
      for (const int count : workers) {
        const GridCell* cell =
            result.find(result.cells.front().setting, queue_name(client, server, count));
        const std::optional<Estimate> misses = cell != nullptr ? miss_rate(*cell) : std::nullopt;
        if (!misses) {
          text += fmt::format(" {:20}", "-");
          continue;
        }
        const Interval around = misses->interval.value_or(Interval{misses->value, misses->value});
        text += fmt::format(" {:5.1f} % [{:4.1f}, {:4.1f}] ", 100 * misses->value, 100 * around.low,
                            100 * around.high);
      }
      text += "\n";
    }
  }
  return text;
}

Result<CheckOutcome> ablate_queues(const AblateOptions& options, GridExperiment& experiment) {
  const std::vector<int> workers =
      options.values.empty() ? std::vector<int>{3, 5, 10} : options.values;
  for (const int count : workers) {
    for (const char* client : {"priority", "random", "fifo"}) {
      for (const char* server : {"priority", "fifo"}) {
        GridVariant variant = worker_variant(queue_name(client, server, count), count);
        variant.edge_flags.push_back(std::string("--client-queue=") + client);
        variant.server_flags = {std::string("--server-queue=") + server};
        experiment.plan.variants.push_back(std::move(variant));
      }
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  std::fputs(queue_table(result, workers).c_str(), stdout);
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0 &&
                   priority_is_best(result, experiment.paces.front().name, workers.front());
  outcome.figures = {{"mismatches", result.mismatches}, {"cells", cells_json(result)}};
  return outcome;
}

// ------------------------------------------------------------------------------ workers, gamma

LinePlot make_plot(const std::string& title, const GridExperiment& experiment,
                   std::vector<PlotPanel> panels) {
  const PaperPace& pace = experiment.paces.front();
  const std::string note = "emulated " + pace.name + ", demo pair, " +
                           std::to_string(experiment.plan.prompts.size()) +
                           " prompts, 95 % intervals";
  return {.title = title, .note = note, .panels = std::move(panels)};
}

// Figure 4a: speed-up over plain speculation and cache misses over the number of workers.
Result<CheckOutcome> ablate_workers(const AblateOptions& options, GridExperiment& experiment) {
  const std::vector<int> workers =
      options.values.empty() ? std::vector<int>{1, 2, 3, 5, 10, 15, 20, 30} : options.values;
  experiment.plan.variants.push_back(variant_of("sd"));
  for (const int count : workers) {
    experiment.plan.variants.push_back(worker_variant("fsd " + std::to_string(count), count));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const std::string& setting = experiment.paces.front().name;
  PlotSeries faster{.name = "fsd over sd"}, missed{.name = "miss rate"};
  for (const int count : workers) {
    const std::string name = "fsd " + std::to_string(count);
    const auto ratio = speedup_at(result, setting, name, "sd");
    const auto misses = miss_rate(*result.find(setting, name));
    if (ratio) faster.points.push_back(point(count, *ratio));
    if (misses) missed.points.push_back(point(count, *misses));
  }
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0 && !missed.points.empty();
  outcome.figures = {{"mismatches", result.mismatches}, {"cells", cells_json(result)}};
  if (options.out.empty()) return outcome;
  OUTRIDER_RETURN_IF_ERROR(write_plot(
      make_plot("Pre-drafting over the number of workers", experiment,
                {{.x_label = "workers", .y_label = "speed-up over sd", .series = {faster}},
                 {.x_label = "workers", .y_label = "miss rate", .series = {missed}}}),
      options.out));
  return outcome;
}

// Figure 4b: speed-ups over the draft length.
Result<CheckOutcome> ablate_gamma(const AblateOptions& options, GridExperiment& experiment) {
  const std::vector<int> lengths =
      options.values.empty() ? std::vector<int>{1, 2, 3, 4, 5, 6, 8, 10} : options.values;
  experiment.plan.variants.push_back(variant_of("ar"));
  for (const char* strategy : {"sd", "fsd", "mirror"}) {
    for (const int length : lengths) {
      GridVariant variant = variant_of(strategy);
      variant.name += " " + std::to_string(length);
      variant.gamma = length;
      experiment.plan.variants.push_back(std::move(variant));
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const std::string& setting = experiment.paces.front().name;
  std::vector<PlotSeries> over_sd, over_ar;
  for (const std::string strategy : {"sd", "fsd", "mirror"}) {
    PlotSeries sd{strategy + " over sd", {}}, ar{strategy + " over ar", {}};
    for (const int length : lengths) {
      const std::string suffix = " " + std::to_string(length);
      const auto to_sd = speedup_at(result, setting, strategy + suffix, "sd" + suffix);
      const auto to_ar = speedup_at(result, setting, strategy + suffix, "ar");
      if (to_sd) sd.points.push_back(point(length, *to_sd));
      if (to_ar) ar.points.push_back(point(length, *to_ar));
    }
    if (strategy != "sd") over_sd.push_back(std::move(sd));
    over_ar.push_back(std::move(ar));
  }
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0;
  outcome.figures = {{"mismatches", result.mismatches}, {"cells", cells_json(result)}};
  if (options.out.empty()) return outcome;
  OUTRIDER_RETURN_IF_ERROR(
      write_plot(make_plot("Strategies over the draft length", experiment,
                           {{"draft length γ", "speed-up over sd of the same γ", over_sd},
                            {"draft length γ", "speed-up over ar", over_ar}}),
                 options.out));
  return outcome;
}

Result<CheckOutcome> run_ablate(const AblateOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(options.grid));
  if (experiment.paces.size() != 1) {
    return invalid_argument("--pace: an ablation is made at one pace, not at " +
                            std::to_string(experiment.paces.size()));
  }
  Result<CheckOutcome> outcome = options.what == "queues"    ? ablate_queues(options, experiment)
                                 : options.what == "workers" ? ablate_workers(options, experiment)
                                                             : ablate_gamma(options, experiment);
  if (outcome.ok()) outcome->figures["experiment"] = experiment_json(options.grid);
  return outcome;
}

}  // namespace

void add_ablate_check(CheckList& checks) {
  auto options = std::make_shared<AblateOptions>();
  options->grid.paces = {"rtx-68m-7b"};  // the paper's
  CLI::App* command =
      checks.add("ablate", "The paper's ablations: queues (table 7), workers, gamma (figure 4)",
                 [options] { return run_ablate(*options); });
  command->add_option("WHAT", options->what, "queues, workers or gamma")
      ->required()
      ->check(CLI::IsMember({"queues", "workers", "gamma"}));
  command->add_option("--values", options->values, "Worker counts or draft lengths [the paper's]")
      ->check(CLI::Range(1, 64))
      ->delimiter(',');
  command->add_option("--out", options->out, "Write the plot of workers or gamma to this SVG file");
  add_grid_flags(*command, options->grid);
}

}  // namespace outrider

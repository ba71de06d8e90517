// The paper's ablations (section 4.3) on our processes: queues (table 7), workers (figure 4a),
// draft length (figure 4b). SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "adapters/plot/line_plot.h"
#include "bench/checks/checks.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/queue_ablation.h"
#include "bench/harness/summary.h"

namespace outrider {
namespace {

constexpr std::array kDrafting = {Strategy::kSd, Strategy::kFsd, Strategy::kMirror};

struct AblateOptions {
  GridFlags grid;
  std::string what;
  std::vector<int> values;           // workers or draft lengths; empty: the paper's
  std::optional<double> service_ms;  // queues: of a report; none: γ T_p
  std::string out;                   // an SVG; empty: none
};

GridVariant worker_variant(const std::string& name, int workers) {
  GridVariant variant = variant_of(Strategy::kFsd);
  variant.name = name;
  variant.workers = workers;
  return variant;
}

Json variant_json(const GridResult& result, const GridCell& cell) {
  const std::optional<Estimate> left = left_rate(cell);
  Json json = cell_json(result, cell);
  json["left_rate"] = left ? to_json(*left) : Json();
  return json;
}

Json ablation_json(const GridResult& result) {
  Json cells = Json::array();
  for (const GridCell& cell : result.cells) cells.push_back(variant_json(result, cell));
  return cells;
}

PlotPoint point(double x, const Estimate& estimate) {
  return {x, estimate.value, estimate.interval};
}

Result<GridExperiment> make_experiment_at_one_pace(const AblateOptions& options,
                                                   std::vector<GridVariant> variants) {
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment,
                            make_experiment(options.grid, std::move(variants)));
  if (experiment.paces.size() != 1) {
    return invalid_argument("--pace: an ablation is made at one pace, not at " +
                            std::to_string(experiment.paces.size()));
  }
  return experiment;
}

// ------------------------------------------------------------------------------------- queues

// What a report takes a worker: in the paper one exit's pre-draft is γ T_p of a thread. A step
// takes a γ-th of it with any number of rows: no worker waits for another.
Status set_service(const AblateOptions& options, double ms, GridExperiment& experiment) {
  OUTRIDER_ASSIGN_OR_RETURN(experiment.plan.settings.front().step,
                            PaceCurve::create({{1, ms / options.grid.gamma}}));
  return {};
}

std::vector<GridVariant> queue_variants(const std::vector<int>& workers) {
  std::vector<GridVariant> variants;
  for (const int count : workers) {
    for (const QueueOrder client : kClientQueues) {
      for (const ReportQueue server : kServerQueues) {
        GridVariant variant = worker_variant(queue_cell(client, server, count), count);
        variant.client_queue = client;
        variant.server_queue = server;
        variants.push_back(std::move(variant));
      }
    }
  }
  return variants;
}

Result<CheckOutcome> ablate_queues(const AblateOptions& options) {
  const std::vector<int> workers =
      options.values.empty() ? std::vector<int>{3, 5, 10} : options.values;
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment,
                            make_experiment_at_one_pace(options, queue_variants(workers)));
  const PaperPace& pace = experiment.paces.front();
  const double service = options.service_ms.value_or(options.grid.gamma * pace.step_ms);
  OUTRIDER_RETURN_IF_ERROR(set_service(options, service, experiment));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const QueueEffects effects = queue_effects(result, pace.name, workers);
  std::printf("each report takes a worker %.0f ms (emulated)\n%s", service,
              queue_table(result, pace.name, workers).c_str());
  CheckOutcome outcome;
  outcome.passed = priority_is_best(result, pace.name, workers.front());
  if (!effects.any()) {
    outcome.show_nothing("no order and no number of workers differs from another beyond noise");
  }
  outcome.figures = {{"emulated_service_ms", service},
                     {"distinct", effects.any()},
                     {"distinct_by",
                      {{"client_queue", effects.client},
                       {"server_queue", effects.server},
                       {"workers", effects.workers}}},
                     {"cells", ablation_json(result)}};
  hold_run(result, outcome);
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

// Figure 4a: speed-up over plain speculation and what verdicts leave to draft over the number of
// workers.
Result<CheckOutcome> ablate_workers(const AblateOptions& options) {
  const std::vector<int> workers =
      options.values.empty() ? std::vector<int>{1, 2, 3, 5, 10, 15, 20, 30} : options.values;
  std::vector<GridVariant> variants = {variant_of(Strategy::kSd)};
  for (const int count : workers) {
    variants.push_back(worker_variant("fsd " + std::to_string(count), count));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                            make_experiment_at_one_pace(options, std::move(variants)));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const std::string& setting = experiment.paces.front().name;
  PlotSeries faster{.name = "fsd over sd"}, remaining{.name = "r"};
  const GridCell& fewest = *result.find(setting, "fsd " + std::to_string(workers.front()));
  bool distinct = false;
  for (const int count : workers) {
    const std::string name = "fsd " + std::to_string(count);
    distinct |= leaves_out_zero(
        difference(fewest.answers, result.find(setting, name)->answers, &AnswerFigures::left_rate));
    const auto ratio = speedup_at(result, setting, name, "sd");
    const auto left = left_rate(*result.find(setting, name));
    if (ratio) faster.points.push_back(point(count, *ratio));
    if (left) remaining.points.push_back(point(count, *left));
  }
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"cells", ablation_json(result)}};
  if (!distinct) outcome.show_nothing("no number of workers differs from the first beyond noise");
  hold_run(result, outcome);
  if (options.out.empty()) return outcome;
  OUTRIDER_RETURN_IF_ERROR(write_plot(
      make_plot("Pre-drafting over the number of workers", experiment,
                {{.x_label = "workers", .y_label = "speed-up over sd", .series = {faster}},
                 {.x_label = "workers",
                  .y_label = "share of the drafting left by a verdict",
                  .series = {remaining}}}),
      options.out));
  return outcome;
}

// Figure 4b: speed-ups over the draft length.
Result<CheckOutcome> ablate_gamma(const AblateOptions& options) {
  const std::vector<int> lengths =
      options.values.empty() ? std::vector<int>{1, 2, 3, 4, 5, 6, 8, 10} : options.values;
  std::vector<GridVariant> variants = {variant_of(Strategy::kAr)};
  for (const Strategy strategy : kDrafting) {
    for (const int length : lengths) {
      GridVariant variant = variant_of(strategy);
      variant.name += " " + std::to_string(length);
      variant.gamma = length;
      variants.push_back(std::move(variant));
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                            make_experiment_at_one_pace(options, std::move(variants)));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const std::string& setting = experiment.paces.front().name;
  std::vector<PlotSeries> over_sd, over_ar;
  bool distinct = false;
  for (const Strategy strategy : kDrafting) {
    const std::string name = name_of(strategy);
    PlotSeries sd{.name = name}, ar{.name = name};
    const std::string first = name + " " + std::to_string(lengths.front());
    for (const int length : lengths) {
      const std::string suffix = " " + std::to_string(length);
      distinct |= leaves_out_zero(difference(result.find(setting, first)->answers,
                                             result.find(setting, name + suffix)->answers,
                                             &AnswerFigures::tpot_ms));
      const auto to_sd = speedup_at(result, setting, name + suffix, "sd" + suffix);
      const auto to_ar = speedup_at(result, setting, name + suffix, "ar");
      if (to_sd) sd.points.push_back(point(length, *to_sd));
      if (to_ar) ar.points.push_back(point(length, *to_ar));
    }
    over_sd.push_back(std::move(sd));
    over_ar.push_back(std::move(ar));
  }
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"cells", ablation_json(result)}};
  if (!distinct) outcome.show_nothing("no draft length differs from the first beyond noise");
  hold_run(result, outcome);
  if (options.out.empty()) return outcome;
  OUTRIDER_RETURN_IF_ERROR(
      write_plot(make_plot("Strategies over the draft length", experiment,
                           {{"draft length γ", "speed-up over sd of the same γ", over_sd},
                            {"draft length γ", "speed-up over ar", over_ar}}),
                 options.out));
  return outcome;
}

Result<CheckOutcome> run_ablate(const AblateOptions& options) {
  Result<CheckOutcome> outcome = options.what == "queues"    ? ablate_queues(options)
                                 : options.what == "workers" ? ablate_workers(options)
                                                             : ablate_gamma(options);
  if (outcome.ok()) outcome->figures["experiment"] = experiment_json(options.grid);
  return outcome;
}

}  // namespace

void add_ablate_check(CheckList& checks) {
  auto options = std::make_shared<AblateOptions>();
  options->grid.paces = {"rtx-68m-7b"};  // the paper's
  options->grid.exits = "all";           // one report a pass fills no queue
  CLI::App* command =
      checks.add("ablate", "The paper's ablations: queues (table 7), workers, gamma (figure 4)",
                 [options] { return run_ablate(*options); });
  command->add_option("WHAT", options->what, "queues, workers or gamma")
      ->required()
      ->check(CLI::IsMember({"queues", "workers", "gamma"}));
  command->add_option("--values", options->values, "Worker counts or draft lengths [the paper's]")
      ->check(CLI::Range(1, 64))
      ->delimiter(',');
  command
      ->add_option("--service-ms", options->service_ms,
                   "queues: what a report takes a worker, emulated [γ T_p]")
      ->check(CLI::Range(0.0, 60000.0));
  command->add_option("--out", options->out, "Write the plot of workers or gamma to this SVG file");
  add_grid_flags(*command, options->grid);
}

}  // namespace outrider

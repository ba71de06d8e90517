// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/paper/reproduce_runs.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/harness/virtual_executor.h"
#include "bench/report/run_progress.h"
#include "sim/synthetic_pair.h"

namespace outrider {
namespace {

constexpr int kPaperWorkers = 15;
constexpr int kSyntheticAnswers = 6;  // at each setting, of 200 tokens

Result<std::optional<GridResult>> virtual_run(const GridPlan& plan) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<VirtualExecutor> executor,
                            VirtualExecutor::create(plan));
  SystemClock clock;
  RunProgress progress(plan, clock, ::isatty(STDERR_FILENO) == 1);
  progress.announce();
  OUTRIDER_ASSIGN_OR_RETURN(GridResult result, run_grid(plan, *executor, progress));
  return std::optional(std::move(result));
}

}  // namespace

double exit_scale_of(const ReproduceOptions& options) {
  return options.exit_scale.value_or(kFittedScale);
}

GridVariant with_paper_workers(const std::string& name) {
  GridVariant variant = variant_of(Strategy::kFsd);
  variant.name = name;
  variant.workers = kPaperWorkers;
  return variant;
}

const PaperSpeed& gsm8k_on_rtx() {
  const auto row = std::ranges::find_if(paper_table6(), [](const PaperSpeed& one) {
    return one.data_set == "GSM8K" && one.pace == "rtx-68m-7b";
  });
  OUTRIDER_CHECK(row != paper_table6().end());
  return *row;
}

Result<std::optional<GridResult>> demo_run(const ReproduceOptions& options,
                                           const std::vector<std::string>& paces,
                                           std::vector<GridVariant> variants) {
  if (options.grid.prompts.empty()) return std::optional<GridResult>();
  GridFlags flags = options.grid;
  flags.paces = paces;
  flags.pass_times = {PassTimes::kPrinted};
  OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                            make_experiment(flags, std::move(variants)));
  return virtual_run(experiment.plan);
}

std::string synthetic_setting(const PaperSpeed& row) {
  return fmt::format("{} at {}", row.data_set, row.pace);
}

Result<std::optional<GridResult>> synthetic_run(const ReproduceOptions& options,
                                                std::span<const PaperSpeed> rows,
                                                std::vector<GridVariant> variants) {
  GridFlags flags = options.grid;
  flags.prompts.clear();
  flags.pass_times = {PassTimes::kPrinted};
  flags.paces.clear();
  for (const PaperSpeed& row : rows) flags.paces.emplace_back(row.pace);
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(flags, std::move(variants)));
  GridPlan& plan = experiment.plan;
  plan.exits = kSyntheticExits;
  plan.exit_scale = options.exit_scale;
  for (int i = 1; i <= kSyntheticAnswers; ++i) plan.prompts.push_back(fmt::format("Text {}.", i));
  const std::vector<GridSetting> at_paces = std::exchange(plan.settings, {});
  for (const PaperSpeed& row : rows) {
    for (const GridSetting& at_pace : at_paces) {
      if (at_pace.name != std::string(row.pace) + " printed") continue;
      GridSetting setting = at_pace;
      setting.name = synthetic_setting(row);
      setting.synthetic =
          SyntheticAcceptance{.name = setting.name, .tau = row.tau, .gamma = kPaperDraftLength};
      plan.settings.push_back(std::move(setting));
    }
  }
  return virtual_run(plan);
}

PaperTimes times_at(const PaperPace& pace) {
  return {kPaperDraftLength * pace.step_ms, pace.pass_ms, pace.one_way_ms};
}

std::string shown(std::optional<double> value) {
  return value ? fmt::format("{:7.2f}", *value) : fmt::format("{:>7}", "-");
}

std::optional<double> value_of(const std::optional<Estimate>& estimate) {
  return estimate ? std::optional(estimate->value) : std::nullopt;
}

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

std::optional<double> not_begun(const AnswerFigures& sum) {
  const std::optional<double> not_whole = sum.miss_rate(), in_part = sum.partial_rate();
  if (!not_whole || !in_part) return std::nullopt;
  return *not_whole - *in_part;
}

}  // namespace outrider

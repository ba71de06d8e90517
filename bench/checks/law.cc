// Measured times against the paper's latency law and our term for mirrored sends (harness/law.h).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "bench/checks/checks.h"
#include "bench/checks/grid_flags.h"
#include "bench/harness/law.h"

namespace outrider {
namespace {

// The emulation itself: plain decoding and plain speculation hold no guess of ours.
constexpr double kMaxPlainResidual = 0.05;
constexpr double kLeastFsdSaving = 0.95;

struct LawOptions {
  GridFlags grid;
  std::vector<std::string> strategies = {"ar", "sd", "fsd", "mirror"};
};

Json saving_json(const FsdSaving& saving) {
  return {{"pace", saving.setting},
          {"measured_ms", saving.measured_ms},
          {"law_ms", saving.law_ms},
          {"met", saving.measured_ms >= kLeastFsdSaving * saving.law_ms}};
}

CheckOutcome judge_law(const GridResult& result, const GridExperiment& experiment,
                       const GridFlags& flags) {
  std::vector<LawRow> rows;
  Json savings = Json::array();
  for (const PaperPace& pace : experiment.paces) {
    for (const GridCell& cell : result.cells) {
      if (cell.setting != pace.name) continue;
      if (const std::optional<LawRow> row = law_of(cell, pace, flags.gamma)) rows.push_back(*row);
    }
    if (const auto saving = fsd_saving(rows, pace.name)) savings.push_back(saving_json(*saving));
  }
  std::fputs(law_table(rows).c_str(), stdout);
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0 && !rows.empty();
  Json lines = Json::array();
  for (const LawRow& row : rows) {
    const bool plain = row.strategy == "ar" || row.strategy == "sd";
    if (plain && std::abs(row.residual()) > kMaxPlainResidual) outcome.passed = false;
    lines.push_back(to_json(row));
  }
  for (const Json& saving : savings) outcome.passed = outcome.passed && saving["met"].get<bool>();
  outcome.figures = {{"mismatches", result.mismatches},
                     {"max_plain_residual", kMaxPlainResidual},
                     {"least_fsd_saving", kLeastFsdSaving},
                     {"fsd_savings", std::move(savings)},
                     {"rows", std::move(lines)},
                     {"experiment", experiment_json(flags)}};
  return outcome;
}

Result<CheckOutcome> run_law(const LawOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(options.grid));
  for (const std::string& strategy : options.strategies) {
    experiment.plan.variants.push_back(variant_of(strategy));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  return judge_law(result, experiment, options.grid);
}

}  // namespace

void add_law_check(CheckList& checks) {
  auto options = std::make_shared<LawOptions>();
  CLI::App* command =
      checks.add("law", "Measured times against the paper's latency law (emulated paces)",
                 [options] { return run_law(*options); });
  command->add_option("--strategy", options->strategies, "ar, sd, fsd, mirror")
      ->check(CLI::IsMember({"ar", "sd", "fsd", "mirror"}))
      ->delimiter(',');
  add_grid_flags(*command, options->grid);
}

}  // namespace outrider

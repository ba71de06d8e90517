// Measured times against the paper's latency law and our term for mirrored sends (harness/law.h).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "bench/checks/checks.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/law.h"

namespace outrider {
namespace {

// The emulation itself: plain decoding and plain speculation hold no guess of ours.
constexpr double kMaxPlainResidual = 0.05;
constexpr double kMinFsdSaving = 0.95;

struct LawOptions {
  GridFlags grid;
  std::vector<std::string> strategies = {"ar", "sd", "fsd", "mirror", "mirror-cost"};

  bool measures(const std::string& strategy) const {
    return std::ranges::find(strategies, strategy) != strategies.end();
  }
};

// "mirror" goes on alone where that is faster, "mirror-cost" waits for every round: the two ends of
// the mirrored term.
GridVariant law_variant(const std::string& name) {
  const std::optional<Strategy> strategy = parse_name<Strategy>(name);
  if (strategy) return variant_of(*strategy);
  GridVariant variant = variant_of(Strategy::kMirror);
  variant.name = name;
  variant.edge_flags = {"--optimize=cost"};
  return variant;
}

Json saving_json(const FsdSaving& saving) {
  return {{"pace", saving.setting},
          {"measured_ms", saving.measured_ms},
          {"law_ms", saving.law_ms},
          {"met", saving.measured_ms >= kMinFsdSaving * saving.law_ms}};
}

CheckOutcome judge_law(const GridResult& result, const GridExperiment& experiment,
                       const LawOptions& options) {
  const bool wants_savings = options.measures("sd") && options.measures("fsd");
  std::vector<LawRow> rows;
  Json savings = Json::array();
  Json without_saving = Json::array();  // paces
  for (const PaperPace& pace : experiment.paces) {
    for (const GridCell& cell : result.cells) {
      if (cell.setting != pace.name) continue;
      if (const std::optional<LawRow> row = law_of(cell, pace)) rows.push_back(*row);
    }
    if (const auto saving = fsd_saving(rows, pace.name)) {
      savings.push_back(saving_json(*saving));
    } else if (wants_savings) {
      without_saving.push_back(pace.name);
    }
  }
  std::fputs(law_table(rows).c_str(), stdout);
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0 && !rows.empty() && without_saving.empty();
  if (!without_saving.empty()) {
    std::fprintf(stderr,
                 "law: fsd drafted nothing ahead at %s, so no saving is shown. Remedy: a target "
                 "with exits, or --exits all\n",
                 without_saving.dump().c_str());
  }
  Json lines = Json::array();
  for (const LawRow& row : rows) {
    const bool plain = row.strategy == Strategy::kAr || row.strategy == Strategy::kSd;
    if (plain && std::abs(row.residual()) > kMaxPlainResidual) outcome.passed = false;
    lines.push_back(to_json(row));
  }
  for (const Json& saving : savings) outcome.passed = outcome.passed && saving["met"].get<bool>();
  outcome.figures = {{"mismatches", result.mismatches},
                     {"max_plain_residual", kMaxPlainResidual},
                     {"least_fsd_saving", kMinFsdSaving},
                     {"fsd_savings", std::move(savings)},
                     {"without_fsd_saving", std::move(without_saving)},
                     {"rows", std::move(lines)},
                     {"experiment", experiment_json(options.grid)}};
  return outcome;
}

Result<CheckOutcome> run_law(const LawOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(options.grid));
  for (const std::string& strategy : options.strategies) {
    experiment.plan.variants.push_back(law_variant(strategy));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  return judge_law(result, experiment, options);
}

}  // namespace

void add_law_check(CheckList& checks) {
  auto options = std::make_shared<LawOptions>();
  CLI::App* command =
      checks.add("law", "Measured times against the paper's latency law (emulated paces)",
                 [options] { return run_law(*options); });
  command->add_option("--strategy", options->strategies, "ar, sd, fsd, mirror, mirror-cost")
      ->check(CLI::IsMember({"ar", "sd", "fsd", "mirror", "mirror-cost"}))
      ->delimiter(',');
  add_grid_flags(*command, options->grid);
}

}  // namespace outrider

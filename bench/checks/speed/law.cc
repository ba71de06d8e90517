// law: compares measured times with the paper's latency law and with our term for mirrored sends
// (harness/law.h). SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "bench/checks/checks.h"
#include "bench/checks/speed/exit_cost.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/law.h"

namespace outrider {
namespace {

// The emulation itself: plain decoding and plain speculation involve no estimate of ours.
constexpr double kMaxPlainResidual = 0.05;
constexpr double kMinFsdSaving = 0.95;
// Our term treats the rates of passes and waits as independent, which is only approximately true.
constexpr double kMaxMirrorResidual = 0.10;

struct LawOptions {
  GridFlags grid;
  std::vector<std::string> strategies = {"ar", "sd", "fsd", "mirror", "mirror-cost"};
};

// The two extremes of the mirrored term: with "mirror" passes go on without a round where that is
// faster; with "mirror-cost" every pass waits for its round.
GridVariant law_variant(const std::string& name) {
  const std::optional<Strategy> strategy = parse_name<Strategy>(name);
  if (strategy) return variant_of(*strategy);
  GridVariant variant = variant_of(Strategy::kMirror);
  variant.name = name;
  variant.edge_flags = {"--optimize=cost"};
  return variant;
}

Json saving_json(const std::string& pace, const FsdSaving& saving) {
  return {{"pace", pace},
          {"measured_ms", saving.measured_ms},
          {"law_ms", saving.law_ms},
          {"share", to_json(saving.share)}};
}

// How far a strategy may be from the law. Nothing for the paper's pre-drafting, which is judged by
// what it saves.
std::optional<double> max_residual(Strategy strategy) {
  if (strategy == Strategy::kAr || strategy == Strategy::kSd) return kMaxPlainResidual;
  if (strategy == Strategy::kMirror) return kMaxMirrorResidual;
  return std::nullopt;
}

struct Findings {
  std::vector<LawRow> rows;
  std::vector<Bar> bars;
  Json savings = Json::array();
};

void add_rows(const GridResult& result, const LawPace& at, Findings& findings) {
  for (const GridCell& cell : result.cells) {
    if (cell.setting != at.pace.name) continue;
    const std::optional<LawRow> row = law_of(cell, at);
    if (!row) continue;
    findings.rows.push_back(*row);
    if (const auto limit = max_residual(row->strategy)) {
      findings.bars.push_back({"residual of " + row->variant + " at " + row->setting, row->residual,
                               *limit, Bar::Side::kWithin});
    }
  }
}

// Inconclusive if both strategies ran and there was no saving to measure.
void add_saving(const GridResult& result, const LawPace& at, Findings& findings,
                CheckOutcome& outcome) {
  const GridCell* sd = result.find(at.pace.name, "sd");
  const GridCell* fsd = result.find(at.pace.name, "fsd");
  if (sd == nullptr || fsd == nullptr) return;
  const std::optional<FsdSaving> saving = fsd_saving(*sd, *fsd, at);
  if (!saving) {
    outcome.mark_inconclusive(
        "fsd drafted nothing ahead at " + at.pace.name +
        ", so there is no saving to measure. Remedy: a target with exits, or --exits all");
    return;
  }
  findings.savings.push_back(saving_json(at.pace.name, *saving));
  findings.bars.push_back(
      {"what fsd saves, of what the law says, at " + at.pace.name, saving->share, kMinFsdSaving});
}

CheckOutcome judge_law(const GridResult& result, const GridExperiment& experiment,
                       const GridFlags& flags) {
  CheckOutcome outcome;
  outcome.passed = true;
  Findings findings;
  for (std::size_t i = 0; i < experiment.paces.size(); ++i) {
    const LawPace at{experiment.paces[i], experiment.plan.settings[i].exit_cost};
    add_rows(result, at, findings);
    add_saving(result, at, findings, outcome);
  }
  std::fputs(law_table(findings.rows).c_str(), stdout);
  Json lines = Json::array();
  for (const LawRow& row : findings.rows) lines.push_back(to_json(row));
  outcome.figures = {{"fsd_savings", std::move(findings.savings)},
                     {"rows", std::move(lines)},
                     {"experiment", experiment_json(flags, experiment)}};
  outcome.hold(findings.bars);
  hold_run(result, outcome);
  return outcome;
}

Result<CheckOutcome> run_law(const LawOptions& options) {
  std::vector<GridVariant> variants;
  for (const std::string& strategy : options.strategies) {
    variants.push_back(law_variant(strategy));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                            make_experiment(options.grid, std::move(variants)));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  return judge_law(result, experiment, options.grid);
}

}  // namespace

void add_law_check(CheckList& checks) {
  auto options = std::make_shared<LawOptions>();
  options->grid.prompts = kPromptSets;
  options->grid.measure_exit_cost = [options = options.get()] {
    return measure_exit_cost(options->grid, 1);
  };
  CLI::App* command =
      checks.add("law", "Measured times against the paper's latency law (emulated paces)",
                 [options] { return run_law(*options); });
  command->add_option("--strategy", options->strategies, "ar, sd, fsd, mirror, mirror-cost")
      ->check(CLI::IsMember({"ar", "sd", "fsd", "mirror", "mirror-cost"}))
      ->delimiter(',');
  add_grid_flags(*command, options->grid);
}

}  // namespace outrider

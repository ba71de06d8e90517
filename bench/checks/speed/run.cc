// Strategies against each other at the paper's paces: real server and edge processes over gRPC, an
// emulated link between them, real tokens of a real pair (docs/benchmarks.md).
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <utility>

#include "bench/checks/checks.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/summary.h"
#include "common/cli/choice.h"

namespace outrider {
namespace {

struct RunOptions {
  GridFlags grid;
  std::vector<Strategy> strategies = {Strategy::kAr, Strategy::kSd, Strategy::kFsd,
                                      Strategy::kMirror};
  bool json = false;
};

Result<CheckOutcome> run_strategies(const RunOptions& options) {
  std::vector<GridVariant> variants;
  for (const Strategy strategy : options.strategies) variants.push_back(variant_of(strategy));
  OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                            make_experiment(options.grid, std::move(variants)));
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  if (!options.json) std::fputs(table(result, experiment.paces).c_str(), stdout);
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"summary", summary_json(result, experiment.paces)},
                     {"experiment", experiment_json(options.grid)},
                     {"cells", cells_json(result)}};
  outcome.hold(judge(result, experiment.paces));
  hold_run(result, outcome);
  return outcome;
}

}  // namespace

void add_run_check(CheckList& checks) {
  auto options = std::make_shared<RunOptions>();
  options->grid.pass_times = {PassTimes::kMeasured, PassTimes::kPrinted};
  CLI::App* command =
      checks.add("run", "Strategies against each other at the paper's devices and links (emulated)",
                 [options] { return run_strategies(*options); });
  add_choice(*command, "--strategy", options->strategies, "ar, sd, fsd, mirror");
  add_grid_flags(*command, options->grid);
  command->add_flag("--json", options->json, "Only the line of JSON, no table");
}

}  // namespace outrider

// Strategies against each other at the paper's paces: real server and edge processes over gRPC, an
// emulated link between them, real tokens of a real pair (docs/benchmarks.md).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

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
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(options.grid));
  for (const Strategy strategy : options.strategies) {
    experiment.plan.variants.push_back(variant_of(strategy));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
  const std::vector<Bar> bars = judge(result, experiment.paces, experiment.times);
  if (!options.json) {
    std::fputs(table(result, experiment.paces).c_str(), stdout);
    for (const Bar& bar : bars) {
      std::printf("%s: %.3f, at least %.2f: %s\n", bar.name.c_str(), bar.value, bar.least,
                  bar.met() ? "met" : "NOT MET");
    }
  }
  CheckOutcome outcome;
  outcome.passed = result.mismatches == 0 &&
                   std::all_of(bars.begin(), bars.end(), [](const Bar& bar) { return bar.met(); });
  Json cells = Json::array();
  for (const GridCell& cell : result.cells) cells.push_back(cell_json(result, cell));
  outcome.figures = {{"summary", to_json(summarise(result, experiment.paces))},
                     {"bars", to_json(bars)},
                     {"compared", result.compared},
                     {"mismatches", result.mismatches},
                     {"experiment", experiment_json(options.grid)},
                     {"cells", std::move(cells)}};
  return outcome;
}

}  // namespace

void add_run_check(CheckList& checks) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      checks.add("run", "Strategies against each other at the paper's devices and links (emulated)",
                 [options] { return run_strategies(*options); });
  add_choice(*command, "--strategy", options->strategies, "ar, sd, fsd, mirror");
  add_grid_flags(*command, options->grid);
  command->add_flag("--json", options->json, "Only the line of JSON, no table");
}

}  // namespace outrider

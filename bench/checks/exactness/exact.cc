// exact: the text is the target's with every strategy, queue order, tree and verifier. Real
// processes decode, and every answer's ids are compared with plain cloud decoding's. If a feature
// that a variant tests never occurred, the check is inconclusive.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <memory>
#include <span>

#include "bench/checks/checks.h"
#include "bench/checks/exactness/exact_variants.h"
#include "bench/checks/speed/exit_cost.h"
#include "bench/harness/grid_flags.h"
#include "bench/lab/rivals.h"
#include "bench/lab/shaped_trees.h"
#include "bench/stats/statistics.h"
#include "common/serving/cli/choice.h"

namespace outrider {
namespace {

// Answers that end at once would be equal with any decoding.
constexpr double kMinMeanAnswer = 8;

struct ExactOptions {
  GridFlags grid;
  ExactWish wish;
  std::vector<double> temperatures = {0, 0.7, 1.0};
  std::size_t skip = 0;  // prompts at the start of the file
};

// Counts of rounds with several branches.
Json branches_json(const GridCell& cell, double temperature) {
  const AnswerFigures sum = sum_of(cell.answers);
  Json depths = Json::array();
  for (std::size_t i = 0; i < sum.drafted_per_branch.size(); ++i) {
    depths.push_back({{"depth", i + 1},
                      {"drafted_by_branch", sum.drafted_per_branch[i]},
                      {"accepted_by_branch", sum.accepted_per_branch[i]}});
  }
  return {{"variant", cell.variant},
          {"pace", cell.setting},
          {"temperature", temperature},
          {"mismatches", cell.mismatches},
          {"acceptance", std::move(depths)}};
}

Result<GridExperiment> experiment_at(double temperature, const ExactOptions& options,
                                     const std::vector<ExactVariant>& variants) {
  GridFlags flags = options.grid;
  flags.temperature = temperature;
  if (flags.num_prompts > 0) flags.num_prompts += options.skip;
  std::vector<GridVariant> grid;
  for (const ExactVariant& variant : variants) grid.push_back(variant.grid);
  OUTRIDER_ASSIGN_OR_RETURN(GridExperiment experiment, make_experiment(flags, std::move(grid)));
  std::vector<std::string>& prompts = experiment.plan.prompts;
  if (options.skip >= prompts.size()) {
    return invalid_argument(fmt::format("--skip-prompts {}: {} has {} prompts. Remedy: skip fewer",
                                        options.skip, flags.prompts, prompts.size()));
  }
  prompts.erase(prompts.begin(), prompts.begin() + static_cast<std::ptrdiff_t>(options.skip));
  return experiment;
}

Result<CheckOutcome> run_exact(const ExactOptions& options) {
  CheckOutcome outcome;
  const std::vector<ExactVariant> variants =
      exact_variants(options.wish, options.grid.plan.target, options.grid.plan.dtype);
  if (variants.empty()) {
    return invalid_argument(
        "--remote false: no verifier is left. Remedy: --resident, or a --pack, or a server");
  }
  std::size_t compared = 0, mismatches = 0, tokens = 0, answers = 0;
  Json wrong = Json::array();
  Json branches = Json::array();
  std::vector<FinishedAnswer> finished;
  for (const double temperature : options.temperatures) {
    OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                              experiment_at(temperature, options, variants));
    OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
    compared += result.compared;
    mismatches += result.mismatches;
    tokens += result.reference_tokens;
    answers += experiment.plan.prompts.size();
    finished.insert(finished.end(), result.finished.begin(), result.finished.end());
    for (const GridCell& cell : result.cells) {
      if (cell.variant.find(" branches") != std::string::npos) {
        branches.push_back(branches_json(cell, temperature));
      }
      if (cell.mismatches == 0) continue;
      wrong.push_back({{"variant", cell.variant},
                       {"pace", cell.setting},
                       {"temperature", temperature},
                       {"mismatches", cell.mismatches}});
    }
  }
  const double mean_answer =
      answers > 0 ? static_cast<double>(tokens) / static_cast<double>(answers) : 0;
  outcome.passed = mismatches == 0 && compared > 0 && mean_answer >= kMinMeanAnswer;
  const std::vector<std::string> missing = missing_features(variants, finished);
  if (!missing.empty()) {
    outcome.mark_inconclusive(fmt::format("never occurred: {}", fmt::join(missing, "; ")));
  }
  outcome.figures = {{"compared", compared},
                     {"mismatches", mismatches},
                     {"skipped_prompts", options.skip},
                     {"wrong", std::move(wrong)},
                     {"never_occurred", missing},
                     {"branches", std::move(branches)},
                     {"mean_answer_tokens", mean_answer}};
  return outcome;
}

}  // namespace

void add_exact_check(CheckList& checks) {
  auto options = std::make_shared<ExactOptions>();
  options->grid.paces = {"unpaced"};
  options->grid.delays_ms = {2};
  options->grid.plan.exits = "all";
  options->grid.prompts = kPromptSets;
  options->grid.measure_exit_cost = [options = options.get()] {
    return measure_exit_cost(options->grid, 1);
  };
  options->grid.num_prompts = 75;
  options->grid.plan.max_tokens = 64;
  CLI::App* command =
      checks.add("exact", "Every strategy, queue, tree and verifier gives plain decoding's text",
                 [options] { return run_exact(*options); });
  ExactWish& wish = options->wish;
  add_choice(*command, "--strategy", wish.strategies, rival_strategies(),
             "With a server: sd, fsd, mirror");
  add_choice(*command, "--queues", wish.queues, "Client queues");
  add_choice(*command, "--server-queue", wish.server_queues,
             "Server queues: the first with each number of workers, the others with the last");
  command->add_option("--workers", wish.workers, "Numbers of pre-draft workers")->delimiter(',');
  command
      ->add_option("--branches", wish.branches,
                   "Add a variant of sd and fsd with N chains per round; 1: do not")
      ->check(CLI::Range(1, 8));
  command->add_option("--server-draft-model", wish.server_draft,
                      "Draft of servers that draft too; adds ar, sd and mirror over such servers, "
                      "and over ones that look up");
  command->add_option("--remote", wish.remote,
                      "Edges with a server; false: only those of --resident and --pack [true]");
  command->add_flag("--resident", wish.resident,
                    "Also edges with the target in their own process, without a server");
  command->add_option("--pack", wish.pack,
                      "Also edges that stream this pack of the target, without a server");
  command->add_option("--memory-budget", wish.memory_budget, "Of these edges, such as 2GiB");
  command->add_option("--plain-memory-budget", wish.plain_memory_budget,
                      "Of edges without a draft, which stream only with a smaller budget");
  add_choice(*command, "--tree", wish.trees, std::span(shaped_trees()),
             "Trees as rounds of sd: llmcad, edgellm, lever, fixed, top-n, outrider; chain");
  command
      ->add_option("--prune", wish.prune_below,
                   "Also prune trees: branches less likely than this; 0: do not")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--temps", options->temperatures, "Temperatures")->delimiter(',');
  command
      ->add_option("--edge-flag", options->grid.plan.edge_flags,
                   "A flag of every edge, plain decoding's too, such as --json-schema={} or "
                   "--presence-penalty=0.5; may be given several times")
      ->type_name("FLAG");
  command->add_option("--skip-prompts", options->skip,
                      "Skip the first N prompts, to split a long run");
  add_grid_flags(*command, options->grid);
}

}  // namespace outrider

// The text is the target's, whatever strategy, queue order and number of workers (DESIGN L1): real
// processes, every answer's ids against those of plain cloud decoding.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <ranges>

#include "bench/checks/checks.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/statistics.h"
#include "common/cli/choice.h"
#include "common/drafting/growth_policy.h"
#include "common/drafting/trees/make_planner.h"
#include "common/verify/scheduler_options.h"

namespace outrider {
namespace {

// Answers that end at once would be equal whatever decoding did.
constexpr double kMinMeanAnswer = 8;

struct ExactOptions {
  GridFlags grid;
  std::vector<Strategy> strategies = {Strategy::kSd, Strategy::kFsd, Strategy::kMirror};
  std::vector<QueueOrder> queues = {QueueOrder::kPriority, QueueOrder::kFifo, QueueOrder::kRandom};
  std::vector<ReportQueue> server_queues = {ReportQueue::kPriority, ReportQueue::kFifo};
  std::vector<int> workers = {1, 3, 10};
  int branches = 2;             // of the rounds of one more variant of sd and fsd; 1: none
  std::vector<TreeKind> trees;  // of rounds of sd, one more variant each
  std::vector<double> temperatures = {0, 0.7, 1.0};
  double prune_below = 0;     // of one more variant of each tree; 0: none
  std::string pack;           // of the target, streamed by edges offline; empty: none
  std::string memory_budget;  // of such an edge
};

GridVariant queue_variant(Strategy strategy, QueueOrder client, ReportQueue server, int workers) {
  const std::string client_name = name_of(client), server_name = name_of(server);
  GridVariant variant = variant_of(strategy);
  variant.name += " " + client_name + "/" + server_name + " " + std::to_string(workers);
  variant.edge_flags = {"--client-queue=" + client_name,
                        "--predraft-workers=" + std::to_string(workers)};
  variant.server_flags.push_back("--server-queue=" + server_name);
  return variant;
}

constexpr const char* kBranches = " branches";  // in the names of variants

std::string provisional_flag(bool provisional) {
  return std::string("--provisional=") + (provisional ? "true" : "false");
}

// Rounds of several chains; the verdict's path is one of them.
GridVariant branch_variant(Strategy strategy, int branches) {
  GridVariant variant = variant_of(strategy);
  variant.name += " " + std::to_string(branches) + kBranches;
  variant.edge_flags = {"--draft-branches=" + std::to_string(branches)};
  return variant;
}

// Rounds that are trees, with drafting while a verdict is awaited and without.
GridVariant tree_variant(TreeKind kind, bool provisional) {
  const std::string name = name_of(kind);
  GridVariant variant = variant_of(Strategy::kSd);
  variant.name += " tree " + name + (provisional ? " provisional" : "");
  variant.edge_flags = {"--tree=" + name, provisional_flag(provisional)};
  return variant;
}

// Branches end in the middle of passes, wherever these are computed.
GridVariant pruned_variant(TreeKind kind, double below, bool on_server) {
  GridVariant variant = tree_variant(kind, true);
  variant.name += " pruned";
  (on_server ? variant.server_flags : variant.edge_flags)
      .push_back(fmt::format("--prune={}", below));
  return variant;
}

// Edges without a server: the target from flash.
void add_flash_variants(const ExactOptions& options, std::vector<GridVariant>& variants) {
  const auto add = [&](GridVariant variant) {
    variant.name = "flash " + variant.name;
    variant.edge_flags.insert(variant.edge_flags.end(),
                              {"--mode=offline", "--target=" + options.pack});
    if (!options.memory_budget.empty()) {
      variant.edge_flags.push_back("--memory-budget=" + options.memory_budget);
    }
    variants.push_back(std::move(variant));
  };
  for (const Strategy strategy : {Strategy::kAr, Strategy::kSd, Strategy::kMirror}) {
    add(variant_of(strategy));
  }
  if (options.branches > 1) {
    for (const bool provisional : {false, true}) {
      GridVariant variant = branch_variant(Strategy::kSd, options.branches);
      variant.edge_flags.insert(variant.edge_flags.end(),
                                {"--tree=chain", provisional_flag(provisional)});
      if (provisional) variant.name += " provisional";
      add(std::move(variant));
    }
  }
  for (const TreeKind kind : options.trees) {
    for (const bool provisional : {false, true}) add(tree_variant(kind, provisional));
    if (options.prune_below > 0) add(pruned_variant(kind, options.prune_below, false));
  }
}

// The first server queue meets every client queue and number of workers, the others each client
// queue at the last number: the two queues know nothing of each other's order.
std::vector<GridVariant> variants_of(const ExactOptions& options) {
  std::vector<GridVariant> variants;
  for (const Strategy strategy : options.strategies) {
    const bool has_rounds = strategy == Strategy::kSd || strategy == Strategy::kFsd;
    if (has_rounds && options.branches > 1) {
      variants.push_back(branch_variant(strategy, options.branches));
    }
    if (strategy == Strategy::kAr || strategy == Strategy::kSd) {
      variants.push_back(variant_of(strategy));
      continue;
    }
    for (const QueueOrder queue : options.queues) {
      for (const int workers : options.workers) {
        variants.push_back(queue_variant(strategy, queue, options.server_queues.front(), workers));
      }
      for (std::size_t i = 1; i < options.server_queues.size(); ++i) {
        variants.push_back(
            queue_variant(strategy, queue, options.server_queues[i], options.workers.back()));
      }
    }
  }
  for (const TreeKind kind : options.trees) {
    for (const bool provisional : {false, true}) {
      variants.push_back(tree_variant(kind, provisional));
    }
    if (options.prune_below > 0) {
      variants.push_back(pruned_variant(kind, options.prune_below, true));
    }
  }
  if (!options.pack.empty()) add_flash_variants(options, variants);
  return variants;
}

// What came of rounds with several branches.
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

// Whether a branch beside the likeliest one ever stood: else the rounds were as good as chains.
bool other_branch_stood(const GridCell& cell) {
  const CountsByBranch accepted = sum_of(cell.answers).accepted_per_branch;
  return std::ranges::any_of(accepted, [](const Counts& branches) {
    return std::ranges::any_of(branches | std::views::drop(1),
                               [](auto count) { return count > 0; });
  });
}

Result<CheckOutcome> run_exact(const ExactOptions& options) {
  CheckOutcome outcome;
  std::size_t compared = 0, mismatches = 0, tokens = 0, answers = 0;
  Json wrong = Json::array();
  Json branches = Json::array();
  bool branched = false;
  for (const double temperature : options.temperatures) {
    GridFlags flags = options.grid;
    flags.temperature = temperature;
    OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                              make_experiment(flags, variants_of(options)));
    OUTRIDER_ASSIGN_OR_RETURN(const GridResult result, run_grid(experiment.plan));
    compared += result.compared;
    mismatches += result.mismatches;
    tokens += result.reference_tokens;
    answers += experiment.plan.prompts.size();
    for (const GridCell& cell : result.cells) {
      if (cell.variant.find(kBranches) != std::string::npos) {
        branches.push_back(branches_json(cell, temperature));
        branched = branched || other_branch_stood(cell);
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
  outcome.passed = mismatches == 0 && compared > 0 && mean_answer >= kMinMeanAnswer &&
                   (branches.empty() || branched);
  outcome.figures = {{"compared", compared},
                     {"mismatches", mismatches},
                     {"wrong", std::move(wrong)},
                     {"branches", std::move(branches)},
                     {"mean_answer_tokens", mean_answer}};
  return outcome;
}

}  // namespace

void add_exact_check(CheckList& checks) {
  auto options = std::make_shared<ExactOptions>();
  options->grid.paces = {"unpaced"};
  options->grid.delays_ms = {2};
  options->grid.exits = "all";
  options->grid.num_prompts = 75;
  options->grid.max_tokens = 64;
  CLI::App* command =
      checks.add("exact", "Every strategy, queue and number of workers gives plain decoding's text",
                 [options] { return run_exact(*options); });
  add_choice(*command, "--strategy", options->strategies, "sd, fsd, mirror");
  add_choice(*command, "--queues", options->queues, "Client queues");
  add_choice(*command, "--server-queue", options->server_queues,
             "Server queues: the first with every number of workers, others with the last");
  command->add_option("--workers", options->workers, "Numbers of pre-draft workers")
      ->delimiter(',');
  command
      ->add_option("--branches", options->branches,
                   "Chains in a round of one more variant of sd and fsd; 1: none")
      ->check(CLI::Range(1, 8));
  command->add_option("--pack", options->pack,
                      "Also edges that stream this pack of the target, without a server");
  command->add_option("--memory-budget", options->memory_budget, "Of these edges, as 2GiB");
  add_choice(*command, "--tree", options->trees,
             "Rounds of sd that are trees: llmcad, edgellm, lever, fixed, top-n, outrider; chain");
  command
      ->add_option("--prune", options->prune_below,
                   "Trees with pruning too, of branches with less chance than this; 0: none")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--temps", options->temperatures, "Temperatures")->delimiter(',');
  add_grid_flags(*command, options->grid);
}

}  // namespace outrider

// What planning a tree costs: time of a planner over the rounds of a draft that takes none.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/harness/statistics.h"
#include "common/drafting/drafter.h"
#include "common/drafting/trees/make_planner.h"

namespace outrider {
namespace {

constexpr double kMaxConstructionMs = 0.3;  // of LEVER's tree of 64 nodes
constexpr double kMaxShareOfStep = 0.02;    // of a draft step, of a planning of ours

struct PlannerOptions {
  std::size_t nodes = 64;
  int rounds = 200;
  double step_ms = 20;
  std::uint64_t seed = 1;
};

// Guesses at random, as of a draft that wavers between two tokens everywhere: trees grow wide.
class RandomDraft final {
 public:
  RandomDraft(std::uint64_t seed, int workers)
      : random_(seed), drafter_({.max_positions = 100000, .vocab_size = 3072, .workers = workers}) {
    drafter_.restart(std::vector<TokenId>{1});
  }

  // Plans and drafts a round and has its first path accepted. Returns the time of each planning,
  // in ms, and the nodes of the round.
  std::pair<std::vector<double>, std::size_t> round(RoundPlanner& planner, std::size_t nodes,
                                                    const PassShape& pass) {
    const PlanLimits limits{.max_nodes = nodes,
                            .max_depth = end_ + 64,
                            .token_bound = 3072,
                            .draft_positions = 100000,
                            .draft_vocabulary = 3072};
    std::vector<double> times;
    while (true) {
      const auto began = std::chrono::steady_clock::now();
      const RoundPlan plan = drafter_.plan(planner, limits);
      times.push_back(to_ms(std::chrono::steady_clock::now() - began));
      std::optional<DraftStep> step;
      if (!plan.expand.empty()) {
        step = drafter_.grow(PlannedGrowth(plan, planner.fan_out()), limits.max_depth);
      }
      if (!step) {
        drafter_.send_plan(plan, planner, limits);
        accept(plan, planner, pass);
        return {times, plan.nodes.size()};
      }
      finish(*step);
    }
  }

 private:
  std::vector<Guess> guesses() {
    std::vector<Guess> made;
    const float first = std::uniform_real_distribution<float>(0.40f, 0.50f)(random_);
    const float shares[] = {first, 0.92f - first, 0.04f, 0.02f};
    for (TokenId i = 0; i < 4; ++i) {
      made.push_back({static_cast<TokenId>(random_() % 760) * 4 + i, shares[i]});
    }
    return made;
  }
  void finish(const DraftStep& step) {
    DraftStepDone done;
    if (step.guess_after_catch_up) done.guesses.push_back(guesses());
    for (std::size_t i = 0; i < step.grow.size(); ++i) {
      done.slots.push_back(next_slot_++);
      done.guesses.push_back(guesses());
    }
    drafter_.finish_step(done);
  }
  // The first child of the first child and so on, and a guess behind it: every token was foreseen.
  void accept(const RoundPlan& plan, RoundPlanner& planner, const PassShape& pass) {
    std::vector<TokenId> tokens;
    NodeIndex at = kRoot;
    for (const NodeIndex node : plan.nodes) {
      if (drafter_.tree().node(node).parent != at) continue;
      tokens.push_back(drafter_.tree().node(node).token);
      at = node;
    }
    const auto behind = drafter_.tree().children(at);
    tokens.push_back(behind.empty() ? static_cast<TokenId>(random_() % 3072)
                                    : drafter_.tree().node(behind.front()).token);
    end_ += static_cast<Position>(tokens.size());
    drafter_.commit(tokens);
    planner.on_verdict(tokens, pass);
  }

  std::mt19937_64 random_;
  Drafter drafter_;
  Slot next_slot_ = 0;
  Position end_ = 1;
};

struct PlannerTimes {
  std::vector<double> plannings, constructions;  // ms; a construction is all plannings of a round
  double nodes = 0;                              // of a round, on the average
};

PlannerTimes measure(TreeKind kind, const PlannerOptions& options) {
  TreeMemory memory;
  TreeOptions tree{.kind = kind, .size = options.nodes};
  // Rows that cost next to nothing, so that every policy that may grows to the bound.
  const auto planner = make_planner(
      tree, memory, [&](std::size_t rows) { return 0.01 * static_cast<double>(rows); });
  RandomDraft draft(options.seed, static_cast<int>(tree.batch));
  PlannerTimes measured;
  for (int i = 0; i < options.rounds; ++i) {
    const PassShape pass{.rows = 1 + static_cast<std::size_t>(i) % (options.nodes + 1),
                         .ms = 10000 + 0.01 * static_cast<double>(i % 65)};
    const auto [times, nodes] = draft.round(*planner, options.nodes, pass);
    if (i < options.rounds / 4) continue;  // it still learns what a pass takes
    double all = 0;
    for (const double ms : times) all += ms;
    measured.constructions.push_back(all);
    measured.plannings.insert(measured.plannings.end(), times.begin(), times.end());
    measured.nodes += static_cast<double>(nodes);
  }
  measured.nodes /= static_cast<double>(measured.constructions.size());
  return measured;
}

Result<CheckOutcome> run_planner(const PlannerOptions& options) {
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"step_ms", options.step_ms}, {"policies", Json::array()}};
  bool bounded = false;
  std::fprintf(stderr, "  %-10s %12s %22s %18s\n", "", "nodes", "construction ms, p50",
               "planning ms, p99");
  for (const auto& [kind, name] : enum_names<TreeKind>) {
    if (kind == TreeKind::kChain) continue;
    const PlannerTimes times = measure(kind, options);
    const double construction = quantile(times.constructions, 0.5);
    const double planning = quantile(times.plannings, 0.99);
    std::fprintf(stderr, "  %-10s %12.1f %22.3f %18.4f\n", name, times.nodes, construction,
                 planning);
    outcome.figures["policies"].push_back({{"policy", name},
                                           {"nodes", times.nodes},
                                           {"construction_ms", construction},
                                           {"planning_p99_ms", planning}});
    if (kind == TreeKind::kLever) {
      bounded = bounded || times.nodes >= 0.9 * static_cast<double>(options.nodes);
      outcome.passed = outcome.passed && construction <= kMaxConstructionMs;
    }
    if (kind == TreeKind::kOutrider) {
      outcome.passed = outcome.passed && planning <= kMaxShareOfStep * options.step_ms;
    }
  }
  if (!bounded) outcome.show_nothing("no tree of LEVER grew to the bound of nodes");
  return outcome;
}

}  // namespace

void add_planner_check(CheckList& checks) {
  auto options = std::make_shared<PlannerOptions>();
  CLI::App* command = checks.add(
      "planner", "What planning trees costs, without models: LEVER's 64 nodes within 0.3 ms",
      [options] { return run_planner(*options); });
  command->add_option("--nodes", options->nodes, "Of a round at most")->check(CLI::Range(8, 512));
  command->add_option("--rounds", options->rounds, "Rounds of each policy")
      ->check(CLI::Range(8, 100000));
  command->add_option("--pace-step-ms", options->step_ms, "Of a draft step, for ours: 2 % of it")
      ->check(CLI::Range(0.1, 1e4));
  command->add_option("--seed", options->seed, "Of the draft's guesses");
}

}  // namespace outrider

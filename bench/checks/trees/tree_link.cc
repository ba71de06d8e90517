// Trees over a network (docs/trees.md): rounds that are trees against chains, at a server's pace
// and several distances, in virtual time, with real models and real tokens.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/checks/trees/tree_flags.h"
#include "bench/harness/bar.h"
#include "bench/harness/statistics.h"
#include "bench/paces/paces.h"
#include "bench/trees/tree_run.h"

namespace outrider {
namespace {

constexpr double kNotWorse = 0.99;

struct TreeLinkOptions {
  TreeRunOptions run;
  std::vector<std::string> prompts;
  std::string pace = "table9-5ms";
  std::vector<double> one_way_ms = {5, 42};
};

std::optional<double> tpot(const std::vector<AnswerFigures>& answers) {
  return sum_of(answers).tpot_ms();
}

const std::vector<AnswerFigures>* fastest_chain(const TreeResults& results) {
  const std::vector<AnswerFigures>* fastest = nullptr;
  for (const auto& [name, answers] : results.answers) {
    if (!name.starts_with("chain-")) continue;
    if (fastest == nullptr || tpot(answers) < tpot(*fastest)) fastest = &answers;
  }
  return fastest;
}

// Times as fast as cloud decoding, tokens and nodes of a pass.
Json table_of(const TreeResults& results) {
  Json rows = Json::array();
  std::fprintf(stderr, "%s: times as fast as ar; by pass: tokens, nodes\n", results.text.c_str());
  for (const auto& [name, answers] : results.answers) {
    const std::optional<Estimate> speed = speedup(*results.of("ar"), answers);
    const std::optional<double> tau = tokens_per_pass(sum_of(answers));
    if (!speed || !tau) continue;
    const Interval range = speed->interval.value_or(Interval{speed->value, speed->value});
    const double nodes = nodes_per_round(sum_of(answers)).value_or(0);
    std::fprintf(stderr, "  %-14s %6.3f [%.3f, %.3f] %9.2f %9.1f\n", name.c_str(), speed->value,
                 range.low, range.high, *tau, nodes);
    rows.push_back({{"rival", name},
                    {"speedup", to_json(*speed)},
                    {"tokens_per_pass", *tau},
                    {"nodes_per_round", nodes}});
  }
  return rows;
}

void add_bars(const TreeResults& results, CheckOutcome& outcome, std::vector<Bar>& bars) {
  const auto hold = [&](const std::string& name, const std::vector<AnswerFigures>& base,
                        const std::vector<AnswerFigures>& tree) {
    if (const std::optional<Estimate> ratio = speedup(base, tree)) {
      bars.push_back({results.text + ": " + name, *ratio, kNotWorse, Bar::Side::kAtLeast});
    }
  };
  hold("outrider over the fastest chain", *fastest_chain(results), *results.of("outrider"));
  hold("mirror over a mirror of chains", *results.of("mirror-chain"), *results.of("mirror"));
  const auto nodes = [&](const char* name) { return sum_of(*results.of(name)).drafted; };
  for (const char* name : {"outrider", "mirror"}) {
    if (nodes(name) == 0) {
      outcome.show_nothing(results.text + ": " + name + " never sent a node");
    }
  }
}

Result<CheckOutcome> run_tree_link(TreeLinkOptions options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces({options.pace}));
  if (paces.size() != 1) return invalid_argument("--pace " + options.pace + ": expected one pace");
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FlashAnswers> answers,
                            FlashAnswers::load(options.run.models));
  CheckOutcome outcome;
  Json tables = Json::object();
  std::vector<Bar> bars;
  std::size_t mismatches = 0;
  for (const double one_way : options.one_way_ms) {
    options.run.network = with_times(at_distance(paces.front(), one_way), PassTimes::kPrinted);
    RivalMemories memories;
    TreeResults all{.text = fmt::format("{} ms one way", one_way)};
    for (const std::string& path : options.prompts) {
      OUTRIDER_ASSIGN_OR_RETURN(const TreeResults file,
                                run_trees(*answers, options.run, network_rivals(), path, memories));
      all.add(file);
    }
    mismatches += all.mismatches;
    tables[all.text] = table_of(all);
    add_bars(all, outcome, bars);
  }
  outcome.passed = mismatches == 0;
  outcome.figures = {{"emulated", true},
                     {"clock", "virtual"},
                     {"pace", options.pace},
                     {"temperature", options.run.temperature},
                     {"max_tokens", options.run.max_tokens},
                     {"mismatches", mismatches},
                     {"rivals", std::move(tables)}};
  outcome.hold(bars);
  return outcome;
}

}  // namespace

void add_tree_link_check(CheckList& checks) {
  auto options = std::make_shared<TreeLinkOptions>();
  CLI::App* command =
      checks.add("tree-link", "Trees against chains over a network, at a server's pace (emulated)",
                 [options] { return run_tree_link(*options); });
  add_tree_run_flags(*command, options->run, options->prompts);
  command->add_option("--pace", options->pace, "Of the FSD paper, for its devices");
  command->add_option("--delay-ms", options->one_way_ms, "Of the link one way, one after the other")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 10000.0));
}

}  // namespace outrider

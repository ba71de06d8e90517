// Trees from flash (docs/trees.md): every policy against plain decoding and chains on an emulated
// device of LEVER, in virtual time, with real models and real tokens.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
#include "bench/trees/tree_run.h"

namespace outrider {
namespace {

struct TreeCheckOptions {
  TreeRunOptions run;
  std::vector<std::string> prompts, policies;
};

// The speed-up over plain decoding as a share of the tokens a pass makes: what a pass costs.
std::optional<Estimate> speedup_per_token(const std::vector<AnswerFigures>& base,
                                          const std::vector<AnswerFigures>& answers) {
  return bootstrap(answers.size(),
                   [&](std::span<const std::size_t> drawn) -> std::optional<double> {
                     const AnswerFigures plain = sum_at(base, drawn), ours = sum_at(answers, drawn);
                     const std::optional<double> a = plain.tpot_ms(), b = ours.tpot_ms();
                     const std::optional<double> tau = tokens_per_pass(ours);
                     if (!a || !b || !tau) return std::nullopt;
                     return *a / *b / *tau;
                   });
}

void print_line(const std::string& name, const Estimate& speed, const Estimate& tau,
                const Estimate& nodes, const AnswerFigures& sum) {
  const Interval range = speed.interval.value_or(Interval{speed.value, speed.value});
  const double passes = std::max(sum.passes, 1.0);
  std::fprintf(stderr, "  %-20s %6.3f [%.3f, %.3f] %9.2f %9.1f %9.0f %9.0f %9.0f\n", name.c_str(),
               speed.value, range.low, range.high, tau.value, nodes.value, sum.decode_ms / passes,
               sum.pass_ms().value_or(0), sum.draft_ms / passes);
}

// Speed-ups over plain decoding, tokens a pass, nodes a round.
Json table_of(const TreeResults& results) {
  Json rows = Json::array();
  const std::vector<AnswerFigures>* base = results.of("flash-ar");
  if (base == nullptr) return rows;
  std::fprintf(stderr,
               "%s: times as fast as flash-ar; by pass:\n  %-20s %22s %9s %9s %9s %9s %9s\n",
               results.text.c_str(), "", "", "tokens", "nodes", "cycle ms", "pass ms", "draft ms");
  for (const auto& [name, answers] : results.answers) {
    const std::optional<Estimate> speed = speedup(*base, answers);
    const std::optional<Estimate> tau = mean(answers, tokens_per_pass);
    const std::optional<Estimate> nodes = mean(answers, nodes_per_round);
    if (!speed || !tau || !nodes) continue;
    print_line(name, *speed, *tau, *nodes, sum_of(answers));
    rows.push_back({{"policy", name},
                    {"speedup", to_json(*speed)},
                    {"tokens_per_pass", to_json(*tau)},
                    {"nodes_per_round", nodes->value}});
    const PruneCounts& pruned = results.pruned.at(name);
    if (pruned.rows > 0) rows.back()["row_layers_saved"] = share_saved(pruned);
  }
  return rows;
}

const std::vector<AnswerFigures>* best_chain(const TreeResults& results) {
  const std::vector<AnswerFigures>* best = nullptr;
  for (const auto& [name, answers] : results.answers) {
    if (name != "chain-" + name.substr(name.rfind('-') + 1)) continue;
    if (best == nullptr || sum_of(answers).tpot_ms() < sum_of(*best).tpot_ms()) best = &answers;
  }
  return best;
}

void add_ratio(std::vector<Bar>& bars, const std::string& name,
               const std::vector<AnswerFigures>* base, const std::vector<AnswerFigures>* answers,
               double least) {
  if (base == nullptr || answers == nullptr) return;
  if (const std::optional<Estimate> ratio = speedup(*base, *answers)) {
    bars.push_back({name, *ratio, least, Bar::Side::kAtLeast});
  }
}

std::vector<Bar> bars_of(const TreeResults& all, const std::vector<TreeResults>& files) {
  std::vector<Bar> bars;
  const std::vector<AnswerFigures>*plain = all.of("flash-ar"), *ours = all.of("outrider");
  add_ratio(bars, "outrider_over_flash_ar", plain, ours, 2.7);
  add_ratio(bars, "outrider_over_chain_8", all.of("chain-8"), ours, 1.2);
  add_ratio(bars, "outrider_over_edgellm", all.of("edgellm"), ours, 1.15);
  add_ratio(bars, "lever_over_edgellm", all.of("edgellm"), all.of("lever"), 1.0);
  for (const TreeResults& file : files) {
    const double least = file.text.find("gsm8k") != std::string::npos ? 1.15 : 1.0;
    add_ratio(bars, "outrider_over_best_chain_" + file.text, best_chain(file), file.of("outrider"),
              least);
  }
  for (const char* name : {"outrider", "chain-4-provisional"}) {
    const std::vector<AnswerFigures>* answers = all.of(name);
    if (plain == nullptr || answers == nullptr) continue;
    if (const auto share = speedup_per_token(*plain, *answers)) {
      bars.push_back({std::string(name) + "_speedup_per_token", *share, 0.92, Bar::Side::kAtLeast});
    }
  }
  if (ours != nullptr) {
    if (const auto tau = mean(*ours, tokens_per_pass)) {
      bars.push_back({"outrider_tokens_per_pass", *tau, 3.0, Bar::Side::kAtLeast});
    }
    if (const auto nodes = mean(*ours, nodes_per_round)) {
      bars.push_back({"outrider_nodes_per_round", *nodes, 16, Bar::Side::kAtMost});
    }
  }
  return bars;
}

Result<CheckOutcome> run_tree(const TreeCheckOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TreeRival> rivals,
                            find_tree_rivals(options.policies));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FlashAnswers> flash,
                            FlashAnswers::load(options.run.models));
  RivalMemories memories;
  std::vector<TreeResults> files;
  TreeResults all{.text = "all prompts"};
  Json tables = Json::object();
  for (const std::string& path : options.prompts) {
    OUTRIDER_ASSIGN_OR_RETURN(TreeResults file,
                              run_trees(*flash, options.run, rivals, path, memories));
    all.add(file);
    files.push_back(std::move(file));
  }
  for (const TreeResults& file : files) tables[file.text] = table_of(file);
  if (files.size() > 1) tables[all.text] = table_of(all);
  CheckOutcome outcome;
  outcome.passed = all.mismatches == 0;
  outcome.figures = {{"emulated", true},
                     {"clock", "virtual"},
                     {"pace", options.run.pace},
                     {"step_ms", options.run.step_ms},
                     {"resident", options.run.resident},
                     {"temperature", options.run.temperature},
                     {"max_tokens", options.run.max_tokens},
                     {"mismatches", all.mismatches},
                     {"policies", std::move(tables)}};
  const std::vector<Bar> bars = bars_of(all, files);
  if (options.run.temperature == 0 && options.run.resident == 0) {
    outcome.hold(bars);
  } else {
    outcome.show_nothing("its bars are those of temperature 0 and nothing in memory");
    outcome.figures["figures"] = to_json(bars);
  }
  return outcome;
}

}  // namespace

void add_tree_check(CheckList& checks) {
  auto options = std::make_shared<TreeCheckOptions>();
  CLI::App* command = checks.add(
      "tree", "Trees from flash against plain decoding and chains, on LEVER's devices (emulated)",
      [options] { return run_tree(*options); });
  add_tree_run_flags(*command, options->run, options->prompts);
  command
      ->add_option("--policies", options->policies, "Only these, as flash-ar,chain-8,lever [all]")
      ->delimiter(',');
  command->add_option("--pace", options->run.pace, "lever-llama31-8b or lever-qwen3-8b");
  command->add_option("--pace-step-ms", options->run.step_ms, "Of a draft step")
      ->check(CLI::Range(0.1, 1e4));
  command
      ->add_option("--resident", options->run.resident, "Share of the layers that stay in memory")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--buffers", options->run.buffers, "Layers that are read ahead")
      ->check(CLI::Range(1, 64));
}

}  // namespace outrider

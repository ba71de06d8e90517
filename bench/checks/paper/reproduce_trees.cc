// Tables and figures of LEVER and EdgeLLM: how their own figures rise and fall with memory, length
// of answers and what is left out, beside the demo pair on LEVER's emulated devices.
// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/paper/reproduce_trees.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "bench/checks/paper/reproduce_findings.h"
#include "bench/trees/tree_run.h"

namespace outrider {
namespace {

// A row of LEVER's tables 6 and 7: tokens/s of its whole system on GSM8K.
struct LeverRow {
  const char* model;
  const char* pace;
  std::vector<double> tokens_per_s;
};

const std::vector<double> kResident = {0, 0.2, 0.4, 0.6, 0.8, 1};
const std::vector<LeverRow> kTable6 = {
    {"Llama-3.1-8B", "lever-llama31-8b", {2.225, 2.821, 3.203, 3.508, 3.736, 4.194}},
    {"Qwen3-8B", "lever-qwen3-8b", {1.741, 1.996, 2.453, 2.791, 3.099, 3.377}}};
const std::vector<double> kLengths = {32, 64, 128, 256, 512};
const std::vector<LeverRow> kTable7 = {
    {"Llama-3.1-8B", "lever-llama31-8b", {2.349, 2.371, 2.225, 2.204, 2.173}},
    {"Qwen3-8B", "lever-qwen3-8b", {1.756, 1.760, 1.741, 1.729, 1.681}}};

// LEVER, section 5.3 on its figure 12, in words.
constexpr double kPrintedRowsKept = 0.48;
constexpr double kPrintedTokensKept = 0.95;
constexpr double kPrintedVerification = 1 - 0.122;

class TreeStudy final {
 public:
  static Result<TreeStudy> load(const ReproduceOptions& options) {
    if (options.grid.prompts.empty()) {
      return invalid_argument(options.what +
                              " needs --prompts: what trees bring hangs on real text");
    }
    TreeStudy study(options);
    study.options_.models = {.target = options.grid.target, .draft = options.grid.draft};
    study.options_.num_prompts = options.grid.num_prompts;
    OUTRIDER_ASSIGN_OR_RETURN(study.flash_, FlashAnswers::load(study.options_.models));
    return study;
  }

  TreeRunOptions& options() { return options_; }

  // Each run begins with nothing learnt: the device is another one.
  Result<TreeResults> run(const std::vector<std::string>& policies) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TreeRival> rivals, find_tree_rivals(policies));
    RivalMemories memories;
    OUTRIDER_ASSIGN_OR_RETURN(TreeResults results,
                              run_trees(*flash_, options_, rivals, prompts_, memories));
    if (results.mismatches > 0) return data_loss("answers differ from plain decoding's");
    return results;
  }

 private:
  explicit TreeStudy(const ReproduceOptions& options) : prompts_(options.grid.prompts) {}

  TreeRunOptions options_;
  std::string prompts_;
  std::unique_ptr<FlashAnswers> flash_;
};

double tokens_per_s(const TreeResults& results, const std::string& policy) {
  const std::optional<double> tpot = sum_of(*results.of(policy)).tpot_ms();
  return tpot && *tpot > 0 ? 1e3 / *tpot : 0;
}

double tau(const TreeResults& results, const std::string& policy) {
  return tokens_per_pass(sum_of(*results.of(policy))).value_or(0);
}

// Tables 6 and 7: each speed against that of its first column, for LEVER as printed and for ours.
Status compare_columns(TreeStudy& study, const std::vector<LeverRow>& rows,
                       const std::vector<double>& columns, const char* of,
                       void (*set)(TreeRunOptions&, double), Findings& findings) {
  const std::vector<std::string> policies = {"flash-ar", "lever", "outrider"};
  for (const LeverRow& row : rows) {
    study.options().pace = row.pace;
    std::printf("%s, GSM8K, tokens/s, and times the first column (LEVER printed; demo pair)\n",
                row.model);
    std::map<std::string, double> first;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      set(study.options(), columns[i]);
      OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(policies));
      std::string line =
          fmt::format("  {} {:>5}: printed {:.3f} ({:.2f})", of, columns[i], row.tokens_per_s[i],
                      row.tokens_per_s[i] / row.tokens_per_s[0]);
      Json json = {{"model", row.model}, {of, columns[i]}, {"printed", row.tokens_per_s[i]}};
      for (const std::string& policy : policies) {
        const double speed = tokens_per_s(results, policy);
        if (i == 0) first[policy] = speed;
        line += fmt::format(", {} {:.3f} ({:.2f})", policy, speed, speed / first[policy]);
        json[policy] = speed;
      }
      std::printf("%s\n", line.c_str());
      findings.rows.push_back(std::move(json));
    }
  }
  return {};
}

Status reproduce_table6(TreeStudy& study, Findings& findings) {
  return compare_columns(
      study, kTable6, kResident, "resident",
      [](TreeRunOptions& options, double share) { options.resident = share; }, findings);
}

Status reproduce_table7(TreeStudy& study, Findings& findings) {
  findings.differences.push_back(
      "the demo pair ends its answers itself: long bounds change little, and 512 tokens are few "
      "prompts' length");
  return compare_columns(
      study, kTable7, kLengths, "max_tokens",
      [](TreeRunOptions& options, double tokens) {
        options.max_tokens = static_cast<Position>(tokens);
      },
      findings);
}

// Policies against the first of them: speed and accepted tokens.
Status compare_policies(TreeStudy& study,
                        const std::vector<std::pair<std::string, std::string>>& policies,
                        Findings& findings) {
  std::vector<std::string> names;
  for (const auto& [name, meaning] : policies) names.push_back(name);
  OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(names));
  const std::string& base = names.front();
  for (const auto& [name, meaning] : policies) {
    const double speed = tokens_per_s(results, name) / tokens_per_s(results, base);
    std::printf("  %-22s %-44s speed %.3f, tokens a pass %.2f, nodes %.1f\n", name.c_str(),
                meaning.c_str(), speed, tau(results, name),
                nodes_per_round(sum_of(*results.of(name))).value_or(0));
    findings.rows.push_back({{"policy", name},
                             {"paper", meaning},
                             {"speed", speed},
                             {"tokens_per_pass", tau(results, name)}});
  }
  return {};
}

Status reproduce_figure11(TreeStudy& study, Findings& findings) {
  std::printf(
      "policies, against SpecInfer's fixed widths (the figure prints no numbers: LEVER is "
      "faster than both, OPT-Tree accepts a little more)\n");
  return compare_policies(
      study,
      {{"fixed", "SpecInfer"}, {"top-n", "OPT-Tree"}, {"lever", "LEVER"}, {"outrider", "ours"}},
      findings);
}

Status reproduce_figure22(TreeStudy& study, Findings& findings) {
  std::printf("EdgeLLM, part by part, against its Std (the figure prints no numbers)\n");
  return compare_policies(study,
                          {{"flash-ar", "Std: plain decoding, reading overlapped"},
                           {"chain-4", "SP: a chain that waits"},
                           {"edgellm-waiting", "branches and fallback"},
                           {"edgellm", "and provisional generation"},
                           {"lever", "LEVER"},
                           {"outrider", "ours"}},
                          findings);
}

Status reproduce_figure12(TreeStudy& study, Findings& findings) {
  std::printf(
      "pruning, all layers in memory (LEVER in words: rows kept %.2f, tokens kept %.2f, "
      "verification %.2f)\n",
      kPrintedRowsKept, kPrintedTokensKept, kPrintedVerification);
  study.options().resident = 1;
  OUTRIDER_ASSIGN_OR_RETURN(
      const TreeResults results,
      study.run({"lever", "lever-pruned", "top-n", "top-n-pruned", "fixed", "fixed-pruned"}));
  for (const char* tree : {"lever", "top-n", "fixed"}) {
    const std::string pruned = std::string(tree) + "-pruned";
    const double rows = 1 - share_saved(results.pruned.at(pruned));
    const double tokens = (tau(results, pruned) - 1) / (tau(results, tree) - 1);
    const double verify = sum_of(*results.of(pruned)).pass_ms().value_or(0) /
                          sum_of(*results.of(tree)).pass_ms().value_or(1);
    const double speed = tokens_per_s(results, pruned) / tokens_per_s(results, tree);
    std::printf("  %-8s rows kept %.2f, tokens kept %.2f, verification %.2f, speed %.3f\n", tree,
                rows, tokens, verify, speed);
    findings.rows.push_back({{"tree", tree},
                             {"rows_kept", rows},
                             {"tokens_kept", tokens},
                             {"verification", verify},
                             {"speed", speed}});
  }
  return {};
}

}  // namespace

std::vector<std::string> tree_reproductions() {
  return {"lever-table6", "lever-table7", "lever-fig11", "lever-fig12", "edgellm-fig22"};
}

Status reproduce_trees(const ReproduceOptions& options, Findings& findings) {
  OUTRIDER_ASSIGN_OR_RETURN(TreeStudy study, TreeStudy::load(options));
  if (options.what == "lever-table6") return reproduce_table6(study, findings);
  if (options.what == "lever-table7") return reproduce_table7(study, findings);
  if (options.what == "lever-fig11") return reproduce_figure11(study, findings);
  if (options.what == "lever-fig12") return reproduce_figure12(study, findings);
  return reproduce_figure22(study, findings);
}

}  // namespace outrider

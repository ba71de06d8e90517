// Tables and figures of LEVER and EdgeLLM: how their figures change with memory, length of answers
// and disabled parts, beside the demo pair on LEVER's emulated devices.
// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/paper/reproduce_trees.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "bench/checks/paper/reproduce_runs.h"
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

// Qwen3-8B on GSM8K, tokens/s: LEVER's table 5, with EAGLE3's draft and with Qwen3-0.6B.
struct DraftRow {
  const char* policy;
  double printed_eagle, printed_small;
};
constexpr DraftRow kTable5[] = {
    {"chain-8", 1.222, 0.840}, {"edgellm", 1.382, 0.940}, {"lever", 1.741, 1.220}};

// LEVER, section 5.3 about figure 12, in words.
constexpr double kPrintedRowsKept = 0.48;
constexpr double kPrintedTokensKept = 0.95;
constexpr double kPrintedVerification = 1 - 0.122;

class TreeStudy final {
 public:
  static Result<TreeStudy> load(const ReproduceOptions& options) {
    TreeStudy study(options);
    study.options_.models = {.target = options.grid.plan.target, .draft = options.grid.plan.draft};
    study.options_.num_prompts = options.grid.num_prompts;
    OUTRIDER_ASSIGN_OR_RETURN(study.flash_, FlashAnswers::load(study.options_.models));
    return study;
  }

  TreeRunOptions& options() { return options_; }

  Status blur_draft(double deviation) {
    options_.models.draft_blur = deviation;
    OUTRIDER_ASSIGN_OR_RETURN(flash_, FlashAnswers::load(options_.models));
    return {};
  }

  // Each run starts without learnt times, because it is on another device.
  Result<TreeResults> run(const std::vector<std::string>& policies) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TreeRival> rivals, find_tree_rivals(policies));
    RivalMemories memories;
    OUTRIDER_ASSIGN_OR_RETURN(TreeResults results,
                              run_trees(*flash_, options_, rivals, prompts_, memories));
    if (results.mismatches > 0) return data_loss("answers differ from plain decoding's");
    return results;
  }

 private:
  // The yield of trees depends on real text, so there is no run without prompts.
  explicit TreeStudy(const ReproduceOptions& options)
      : prompts_(options.grid.prompts.empty() ? "bench/prompts/gsm8k.jsonl"
                                              : options.grid.prompts) {}

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

// Why speeds and yields of the demo pair may be others than those of the papers' pairs.
constexpr const char* kOtherPair =
    "the demo pair stands for the papers' pairs: its draft knows other texts, and guesses so well "
    "that short trees and chains are worth more";

constexpr double kRelativeBand = 0.15;

void claim_near(const std::string& what, double printed, double ours, const char* reason,
                Findings& findings) {
  findings.claims.push_back({.what = what,
                             .printed = printed,
                             .ours = ours,
                             .band = Band::near(printed, kRelativeBand),
                             .reason = reason});
}

// A statement in words: the one is at least the other.
void claim_at_least(const std::string& what, double one, double other, const char* reason,
                    Findings& findings) {
  findings.claims.push_back({.what = what,
                             .printed = 1,
                             .ours = other > 0 ? one / other : 0,
                             .band = Band::at_least(1),
                             .reason = reason});
}

// Tables 6 and 7: each speed relative to the first column, LEVER's as printed and ours.
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
      if (i == 0) continue;
      claim_near(fmt::format("{}, {} {}: LEVER's speed over that of the first column", row.model,
                             of, columns[i]),
                 row.tokens_per_s[i] / row.tokens_per_s[0],
                 tokens_per_s(results, "lever") / first["lever"], kOtherPair, findings);
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

// A policy that the paper shows ahead of another one.
struct Ahead {
  const char *one, *other;
};

// Policies relative to the first one: speed and accepted tokens.
Status compare_policies(TreeStudy& study,
                        const std::vector<std::pair<std::string, std::string>>& policies,
                        const std::vector<Ahead>& ahead, Findings& findings) {
  std::vector<std::string> names;
  for (const auto& [name, meaning] : policies) names.push_back(name);
  OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(names));
  const std::string& base = names.front();
  for (const auto& [name, meaning] : policies) {
    const double speed = tokens_per_s(results, name) / tokens_per_s(results, base);
    std::printf("  %-22s %-44s speed %.3f, tokens per pass %.2f, nodes %.1f\n", name.c_str(),
                meaning.c_str(), speed, tau(results, name),
                nodes_per_round(sum_of(*results.of(name))).value_or(0));
    findings.rows.push_back({{"policy", name},
                             {"paper", meaning},
                             {"speed", speed},
                             {"tokens_per_pass", tau(results, name)}});
  }
  for (const Ahead& pair : ahead) {
    claim_at_least(fmt::format("speed of {} over {}", pair.one, pair.other),
                   tokens_per_s(results, pair.one), tokens_per_s(results, pair.other), kOtherPair,
                   findings);
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
      {{"lever", "fixed"}, {"lever", "top-n"}}, findings);
}

Status reproduce_figure22(TreeStudy& study, Findings& findings) {
  std::printf("EdgeLLM, part by part, against its Std (the figure prints no numbers)\n");
  return compare_policies(
      study,
      {{"flash-ar", "Std: plain decoding, reading overlapped"},
       {"chain-4", "SP: a chain that waits"},
       {"edgellm-waiting", "branches and fallback"},
       {"edgellm", "and provisional generation"},
       {"lever", "LEVER"},
       {"outrider", "ours"}},
      {{"chain-4", "flash-ar"}, {"edgellm-waiting", "chain-4"}, {"edgellm", "edgellm-waiting"}},
      findings);
}

Status reproduce_table5(TreeStudy& study, Findings& findings) {
  std::printf(
      "%s, GSM8K, tokens/s, and times Chain-SD (with EAGLE3, with Qwen3-0.6B, this draft)\n",
      kTable6[1].model);
  study.options().pace = kTable6[1].pace;
  OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results,
                            study.run({"chain-8", "edgellm", "lever", "outrider"}));
  const double chain = tokens_per_s(results, "chain-8");
  for (const DraftRow& row : kTable5) {
    const double speed = tokens_per_s(results, row.policy);
    std::printf("  %-8s %.3f (%.2f), %.3f (%.2f), %.3f (%.2f)\n", row.policy, row.printed_eagle,
                row.printed_eagle / kTable5[0].printed_eagle, row.printed_small,
                row.printed_small / kTable5[0].printed_small, speed, speed / chain);
    findings.rows.push_back({{"policy", row.policy},
                             {"printed_eagle3", row.printed_eagle},
                             {"printed_qwen3_0.6b", row.printed_small},
                             {"tokens_per_s", speed},
                             {"tokens_per_pass", tau(results, row.policy)}});
    if (&row == kTable5) continue;
    claim_near(fmt::format("{} over Chain-SD, with EAGLE3", row.policy),
               row.printed_eagle / kTable5[0].printed_eagle, speed / chain, kOtherPair, findings);
    claim_near(fmt::format("{} over Chain-SD, with Qwen3-0.6B", row.policy),
               row.printed_small / kTable5[0].printed_small, speed / chain, kOtherPair, findings);
  }
  const double ours = tokens_per_s(results, "outrider");
  std::printf("  outrider %.3f (%.2f)\n", ours, ours / chain);
  findings.rows.push_back({{"policy", "outrider"}, {"tokens_per_s", ours}});
  findings.differences.push_back(
      "one draft a run (--draft): run it again with a weaker one and compare the columns");
  return {};
}

// Relative to the smallest tree: calls of the target, its time, total time; speed and tokens per
// pass.
Status reproduce_figure5(TreeStudy& study, Findings& findings) {
  std::printf(
      "top-n trees by their size (the figure prints no numbers: calls fall, the time of each "
      "verification rises, speed has its best between)\n");
  double calls = 0, verification = 0, decoding = 0;
  std::map<int, double> calls_of, pass_ms_of, speed_of;
  for (const int size : {2, 4, 8, 16, 32, 64}) {
    study.options().tree_size = size;
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run({"top-n"}));
    const AnswerFigures all = sum_of(*results.of("top-n"));
    if (calls == 0) {
      calls = all.passes;
      verification = all.compute_ms;
      decoding = all.decode_ms;
    }
    calls_of[size] = all.passes;
    pass_ms_of[size] = all.pass_ms().value_or(0);
    speed_of[size] = tokens_per_s(results, "top-n");
    std::printf(
        "  %2d nodes: calls %.2f, verification %.2f, decoding %.2f; %.3f tokens/s, %.2f "
        "tokens per pass\n",
        size, all.passes / calls, all.compute_ms / verification, all.decode_ms / decoding,
        tokens_per_s(results, "top-n"), tau(results, "top-n"));
    findings.rows.push_back({{"nodes", size},
                             {"calls", all.passes / calls},
                             {"verification", all.compute_ms / verification},
                             {"decoding", all.decode_ms / decoding},
                             {"tokens_per_s", tokens_per_s(results, "top-n")},
                             {"tokens_per_pass", tau(results, "top-n")}});
  }
  claim_at_least("calls of the target with 2 nodes, over those with 64", calls_of[2], calls_of[64],
                 "", findings);
  claim_at_least("a verification of 64 nodes over one of 2", pass_ms_of[64], pass_ms_of[2], "",
                 findings);
  claim_at_least("the speed with 8 nodes over that with 2", speed_of[8], speed_of[2], "", findings);
  claim_at_least("the speed with 8 nodes over that with 64", speed_of[8], speed_of[64], "",
                 findings);
  return {};
}

// EdgeLLM, figure 18: from little memory to enough for everything.
Status reproduce_figure18(TreeStudy& study, Findings& findings) {
  std::printf(
      "tokens/s by the share of layers in memory (EdgeLLM in words, on a Jetson TX2: over SP "
      "1.91 x with 4 GB, 1.76 x with 6 GB)\n");
  const std::vector<std::string> policies = {"flash-ar", "chain-4", "edgellm", "outrider"};
  for (const double share : kResident) {
    study.options().resident = share;
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(policies));
    std::string line = fmt::format("  resident {:.1f}:", share);
    Json json = {{"resident", share}};
    for (const std::string& policy : policies) {
      line += fmt::format(" {} {:.3f}", policy, tokens_per_s(results, policy));
      json[policy] = tokens_per_s(results, policy);
    }
    const double over_sp = tokens_per_s(results, "edgellm") / tokens_per_s(results, "chain-4");
    // The budgets are those of another device; here two and three of five layers in memory stand
    // for them.
    if (share == 0.4) claim_near("4 GB: EdgeLLM over SP", 1.91, over_sp, kOtherPair, findings);
    if (share == 0.6) claim_near("6 GB: EdgeLLM over SP", 1.76, over_sp, kOtherPair, findings);
    std::printf("%s; edgellm over SP %.2f\n", line.c_str(), over_sp);
    json["edgellm_over_sp"] = over_sp;
    findings.rows.push_back(std::move(json));
  }
  return {};
}

// EdgeLLM, figure 19: from the largest draft that fits into memory to smaller ones, which are
// faster and guess worse. Here noise on the demo draft's logits makes the smaller ones.
struct DraftSize {
  double step_ms, blur;
};
constexpr DraftSize kDraftSizes[] = {{40, 0}, {20, 0.5}, {10, 1}, {5, 2}, {2.5, 4}};

Status reproduce_figure19(TreeStudy& study, Findings& findings) {
  std::printf(
      "tokens/s by the draft's size (the figure's words: the largest draft that fits into memory "
      "is "
      "generally best)\n");
  const std::vector<std::string> policies = {"flash-ar", "chain-4", "edgellm", "outrider"};
  std::vector<double> speeds;
  for (const DraftSize& size : kDraftSizes) {
    study.options().step_ms = size.step_ms;
    OUTRIDER_RETURN_IF_ERROR(study.blur_draft(size.blur));
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(policies));
    std::string line = fmt::format("  step {:>4} ms, noise {:.1f}:", size.step_ms, size.blur);
    Json json = {{"step_ms", size.step_ms}, {"blur", size.blur}};
    for (const std::string& policy : policies) {
      line += fmt::format(" {} {:.3f}", policy, tokens_per_s(results, policy));
      json[policy] = tokens_per_s(results, policy);
    }
    speeds.push_back(tokens_per_s(results, "edgellm"));
    std::printf("%s; tokens per pass %.2f\n", line.c_str(), tau(results, "outrider"));
    json["tokens_per_pass"] = tau(results, "outrider");
    findings.rows.push_back(std::move(json));
  }
  claim_near("the largest draft over the next smaller one (T5-base over T5-small)", 1.05,
             speeds[0] / speeds[1], kOtherPair, findings);
  findings.differences.push_back(
      "smaller drafts are the demo draft with noise on its logits: emulated, as the steps' times "
      "are");
  return {};
}

// EdgeLLM, figure 20: the parts of a round's time.
Status reproduce_figure20(TreeStudy& study, Findings& findings) {
  std::printf(
      "a round, ms: drafting G and P, verification V, all (the figure prints no numbers; P "
      "runs within V)\n");
  std::map<std::string, double> waited;
  for (const char* policy : {"edgellm-waiting", "edgellm", "outrider"}) {
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run({policy}));
    const AnswerFigures all = sum_of(*results.of(policy));
    const double rounds = std::max(all.passes, 1.0);
    const double drafting = all.draft_ms / rounds, verification = all.compute_ms / rounds;
    const double round = all.decode_ms / rounds;
    const double hidden = std::max(0.0, drafting + verification - round);
    waited[policy] = drafting - hidden;
    std::printf("  %-16s G %.0f, P %.0f, V %.0f, round %.0f\n", policy, drafting - hidden, hidden,
                verification, round);
    findings.rows.push_back({{"policy", policy},
                             {"drafting_ms", drafting - hidden},
                             {"provisional_ms", hidden},
                             {"verification_ms", verification},
                             {"round_ms", round}});
  }
  claim_at_least("drafting that is waited for without provisional generation, over that with it",
                 waited["edgellm-waiting"], waited["edgellm"], "", findings);
  return {};
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
    if (tree != std::string("lever")) continue;
    const char* const reason =
        "the demo pair's trees are a third as large as the paper's, and their branches are likely: "
        "hardly one is pruned";
    claim_near("rows kept", kPrintedRowsKept, rows, reason, findings);
    claim_near("tokens kept", kPrintedTokensKept, tokens, reason, findings);
    claim_near("verification", kPrintedVerification, verify, reason, findings);
  }
  return {};
}

}  // namespace

std::vector<std::string> tree_reproductions() {
  return {"lever-table5", "lever-table6",  "lever-table7",  "lever-fig5",    "lever-fig11",
          "lever-fig12",  "edgellm-fig18", "edgellm-fig19", "edgellm-fig20", "edgellm-fig22"};
}

Status reproduce_trees(const ReproduceOptions& options, Findings& findings) {
  OUTRIDER_ASSIGN_OR_RETURN(TreeStudy study, TreeStudy::load(options));
  if (options.what == "lever-table5") return reproduce_table5(study, findings);
  if (options.what == "lever-table6") return reproduce_table6(study, findings);
  if (options.what == "lever-table7") return reproduce_table7(study, findings);
  if (options.what == "lever-fig5") return reproduce_figure5(study, findings);
  if (options.what == "edgellm-fig18") return reproduce_figure18(study, findings);
  if (options.what == "edgellm-fig19") return reproduce_figure19(study, findings);
  if (options.what == "edgellm-fig20") return reproduce_figure20(study, findings);
  if (options.what == "lever-fig11") return reproduce_figure11(study, findings);
  if (options.what == "lever-fig12") return reproduce_figure12(study, findings);
  return reproduce_figure22(study, findings);
}

}  // namespace outrider

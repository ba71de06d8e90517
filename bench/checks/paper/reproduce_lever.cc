// Tables and figures of LEVER: how its figures change with models, memory, length of answers and
// disabled parts, beside the demo pair on its emulated devices. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>

#include "bench/checks/paper/tree_study.h"
#include "bench/lab/flash_bandwidth.h"

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

Status by_memory(TreeStudy& study, Findings& findings) {
  return compare_columns(
      study, kTable6, kResident, "resident",
      [](TreeRunOptions& options, double share) { options.resident = share; }, findings);
}

Status by_length(TreeStudy& study, Findings& findings) {
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

Status by_policy(TreeStudy& study, Findings& findings) {
  std::printf(
      "policies, against SpecInfer's fixed widths (the figure prints no numbers: LEVER is "
      "faster than both, OPT-Tree accepts a little more)\n");
  return compare_policies(
      study,
      {{"fixed", "SpecInfer"}, {"top-n", "OPT-Tree"}, {"lever", "LEVER"}, {"outrider", "ours"}},
      {{"lever", "fixed"}, {"lever", "top-n"}}, findings);
}

Status by_draft(TreeStudy& study, Findings& findings) {
  std::printf(
      "%s, GSM8K, tokens/s, and times Chain-SD (with EAGLE3, with Qwen3-0.6B, this draft)\n",
      kTable6[1].model);
  study.options().pace = kTable6[1].pace;
  OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results,
                            study.run(TreeStudy::Names{"chain-8", "edgellm", "lever", "outrider"}));
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
Status by_tree_size(TreeStudy& study, Findings& findings) {
  std::printf(
      "top-n trees by their size (the figure prints no numbers: calls fall, the time of each "
      "verification rises, speed has its best between)\n");
  double calls = 0, verification = 0, decoding = 0;
  std::map<int, double> calls_of, pass_ms_of, speed_of;
  for (const int size : {2, 4, 8, 16, 32, 64}) {
    study.options().tree_size = size;
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(TreeStudy::Names{"top-n"}));
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

constexpr std::array kScoreTemperatures = {0.5, 2.0};  // tau_E, which the paper does not print

Status pruning(TreeStudy& study, Findings& findings) {
  std::printf(
      "pruning, all layers in memory (LEVER in words: rows kept %.2f, tokens kept %.2f, "
      "verification %.2f)\n",
      kPrintedRowsKept, kPrintedTokensKept, kPrintedVerification);
  study.options().resident = 1;
  OUTRIDER_ASSIGN_OR_RETURN(
      std::vector<TreeRival> rivals,
      find_tree_rivals({"lever", "lever-pruned", "lever-pruned-edges", "top-n", "top-n-pruned",
                        "fixed", "fixed-pruned", "fixed-pruned-edges"}));
  for (const double temperature : kScoreTemperatures) {
    rivals.push_back(*std::ranges::find(rivals, "fixed-pruned-edges", &TreeRival::name));
    rivals.back().name += fmt::format(" tau_E {}", temperature);
    rivals.back().prune_temperature = temperature;
  }
  OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(rivals));
  for (const TreeRival& rival : rivals) {
    const std::string& pruned = rival.name;
    const std::string tree = pruned.substr(0, pruned.find("-pruned"));
    if (tree == pruned) continue;
    const double rows = 1 - share_saved(results.pruned.at(pruned));
    const double tokens = (tau(results, pruned) - 1) / (tau(results, tree) - 1);
    const double verify = sum_of(*results.of(pruned)).pass_ms().value_or(0) /
                          sum_of(*results.of(tree)).pass_ms().value_or(1);
    const double speed = tokens_per_s(results, pruned) / tokens_per_s(results, tree);
    std::printf("  %-29s rows kept %.2f, tokens kept %.2f, verification %.2f, speed %.3f\n",
                pruned.c_str(), rows, tokens, verify, speed);
    findings.rows.push_back({{"tree", pruned},
                             {"rows_kept", rows},
                             {"tokens_kept", tokens},
                             {"verification", verify},
                             {"speed", speed}});
    if (tree != "lever" || rival.prune_temperature != 1) continue;
    const char* const reason =
        "the demo pair's trees are a third as large as the paper's, and their branches are likely: "
        "hardly one is pruned";
    const std::string rule = pruned == "lever-pruned" ? "" : ", an edge by its score alone (eq. 7)";
    claim_near("rows kept" + rule, kPrintedRowsKept, rows, reason, findings);
    claim_near("tokens kept" + rule, kPrintedTokensKept, tokens, reason, findings);
    claim_near("verification" + rule, kPrintedVerification, verify, reason, findings);
  }
  return {};
}

// ------------------------------------------------------------------------------------- table 2

// The share of rows that a pass of `budget` tokens does not accept, by the speed that tables 6 and
// 7 print, if reading and computing follow each other and drafting takes no time. In percent.
double rows_not_accepted(const LeverRow& row, const LeverTimes& times, const LeverWaste& waste) {
  const double tokens = row.tokens_per_s.front() * (times.read_ms + waste.verify_ms) / 1e3;
  return 100 * (1 - (tokens - 1) / waste.budget);
}

Status wasted_rows(TreeStudy& study, Findings& findings) {
  std::printf("table 2: rows of a verification that were not accepted, %%\n");
  for (const LeverWaste& waste : lever_table2()) {
    const LeverRow& row = *std::ranges::find(kTable6, waste.model, &LeverRow::model);
    study.options().pace = row.pace;
    study.options().tree_size = waste.budget;
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(TreeStudy::Names{"top-n"}));
    const AnswerFigures all = sum_of(*results.of("top-n"));
    const double ours = 100 * (1 - all.accepted / std::max(all.drafted, 1.0));
    const std::string name = fmt::format("{}, {} tokens", waste.model, waste.budget);
    std::printf("  %-24s printed %.1f (%.0f of %.0f ms), ours %.1f of rows\n", name.c_str(),
                waste.waste_percent, waste.waste_ms, waste.verify_ms, ours);
    findings.rows.push_back({{"of", name}, {"printed", waste.waste_percent}, {"ours", ours}});
    findings.claims.push_back({.what = name + ": waste of the time, %",
                               .printed = waste.waste_percent,
                               .formula = 100 * waste.waste_ms / waste.verify_ms,
                               .band = Band::within(waste.waste_percent, 0.05)});
    findings.claims.push_back(
        {.what = name + ": rows that were not accepted, %",
         .printed = waste.waste_percent,
         .formula = rows_not_accepted(row, lever_times(waste.model), waste),
         .ours = ours,
         .band = Band::near(waste.waste_percent, kRelativeBand),
         .reason = "what is counted is not said, and it is not the rows: by the speeds of tables 6 "
                   "and 7 a pass accepts two to four tokens"});
  }
  return {};
}

// ------------------------------------------------------------------------------------ figure 10

// Phones of its table 3, by the specified rate of their flash; table 1 is of the first.
struct Phone {
  const char *name, *flash;
};
constexpr Phone kPhones[] = {
    {"OnePlus 12", "ufs4.0"}, {"Honor 500 Pro", "ufs3.1"}, {"Honor Magic V5", "ufs4.1"}};

constexpr const char* kEndToEnd[] = {"flash-ar", "chain-8", "edgellm", "lever"};
constexpr const char* kOurChoice = "outrider";

struct SpeedUps {
  double log_sum = 0;
  int count = 0;

  void add(double ratio) {
    log_sum += std::log(ratio);
    ++count;
  }
  double mean() const { return count > 0 ? std::exp(log_sum / count) : 0; }
};

// Each policy on each phone and model, so that all share what one of them computed of a prompt.
Result<std::vector<TreeRival>> on_all_phones() {
  OUTRIDER_ASSIGN_OR_RETURN(const double first, parse_bandwidth(kPhones[0].flash));
  std::vector<std::string> names(std::begin(kEndToEnd), std::end(kEndToEnd));
  names.emplace_back(kOurChoice);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TreeRival> policies, find_tree_rivals(names));
  std::vector<TreeRival> rivals;
  for (const Phone& phone : kPhones) {
    OUTRIDER_ASSIGN_OR_RETURN(const double rate, parse_bandwidth(phone.flash));
    for (const NamedFlashPace& pace : flash_paces()) {
      if (!pace.name.starts_with("lever-")) continue;
      for (TreeRival rival : policies) {
        rival.name = fmt::format("{}@{}@{}", rival.name, pace.name, phone.name);
        rival.read_rate = rate / first;
        rival.pace = pace;
        rivals.push_back(std::move(rival));
      }
    }
  }
  return rivals;
}

Status end_to_end(TreeStudy& study, Findings& findings) {
  std::printf("figure 10: 48 speeds, three phones, four models, four data sets, times flash-ar\n");
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TreeRival> rivals, on_all_phones());
  constexpr std::size_t kPrompts = 2;
  study.at_most(kPrompts);
  std::map<std::string, SpeedUps> over, by_set;
  for (const char* set : {"humaneval", "mbpp", "gsm8k", "mt-bench"}) {
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results,
                              study.run(rivals, fmt::format("bench/prompts/{}.jsonl", set)));
    for (const TreeRival& rival : rivals) {
      if (!rival.name.starts_with("lever@")) continue;
      const std::string where = rival.name.substr(std::string("lever").size());
      const auto speed = [&](const std::string& policy) {
        return tokens_per_s(results, policy + where);
      };
      Json json = {{"prompts", set}, {"where", where.substr(1)}};
      for (const char* policy : kEndToEnd) {
        json[policy] = speed(policy);
        over[policy].add(speed("lever") / speed(policy));
      }
      json[kOurChoice] = speed(kOurChoice);
      over[kOurChoice].add(speed(kOurChoice) / speed("flash-ar"));
      by_set[set].add(speed("lever") / speed("flash-ar"));
      findings.rows.push_back(std::move(json));
    }
    std::printf("  %-10s LEVER %.2f times plain decoding\n", set, by_set[set].mean());
  }
  struct Printed {
    const char *policy, *name;
    double times;
  };
  for (const Printed& one :
       {Printed{"flash-ar", "Flash-AR", 2.93}, Printed{"chain-8", "Chain-SD", 1.50},
        Printed{"edgellm", "EdgeLLM", 1.27}}) {
    std::printf("  over %-9s printed %.2f, ours %.2f\n", one.name, one.times,
                over[one.policy].mean());
    claim_near(fmt::format("LEVER over {}, geometric mean of 48", one.name), one.times,
               over[one.policy].mean(), kOtherPair, findings);
  }
  std::printf("  our own policy over plain decoding: %.2f\n", over[kOurChoice].mean());
  for (const char* set : {"humaneval", "mbpp", "gsm8k"}) {
    claim_at_least(fmt::format("the gain on {} over that on mt-bench", set), by_set[set].mean(),
                   by_set["mt-bench"].mean(), kOtherPair, findings);
  }
  findings.differences.push_back(
      "the phones differ by their flash's specified rate alone, and every tree is drafted by the "
      "demo draft, not by an EAGLE-3 head");
  return {};
}

// ------------------------------------------------------------------------------------ figure 13

// A draft's step, chosen: a row takes 20 ms on the CPU; on the NPU the start of a step takes as
// long as that and 6 ms more, and each further row a tenth. LEVER runs single rows on the CPU.
struct Schedule {
  const char *name, *policy;
  double step_ms, step_row;
};
constexpr Schedule kSchedules[] = {{"single node, NPU", "lever-single", 26, 0.1},
                                   {"single node, CPU", "lever-single", 20, 1},
                                   {"batch-aware, NPU", "lever", 20, 0.1}};

Status schedules(TreeStudy& study, Findings& findings) {
  std::printf("figure 13: drafting, ms a node (no numbers; the emulated steps are chosen)\n");
  std::map<std::string, double> per_node;
  for (const Schedule& schedule : kSchedules) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TreeRival> rivals, find_tree_rivals({schedule.policy}));
    OUTRIDER_ASSIGN_OR_RETURN(NamedFlashPace pace, find_flash_pace(kTable6[1].pace));
    pace.step_ms = schedule.step_ms;
    pace.step_row = schedule.step_row;
    rivals.front().pace = pace;
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(rivals));
    const AnswerFigures all = sum_of(*results.of(schedule.policy));
    per_node[schedule.name] = all.draft_ms / std::max(all.drafted, 1.0);
    std::printf("  %s: %.1f\n", schedule.name, per_node[schedule.name]);
    findings.rows.push_back(
        {{"schedule", schedule.name}, {"ms_per_node", per_node[schedule.name]}});
  }
  for (const char* single : {kSchedules[0].name, kSchedules[1].name}) {
    claim_at_least(fmt::format("{} over batch-aware", single), per_node[single],
                   per_node[kSchedules[2].name], "", findings);
  }
  return {};
}

}  // namespace

std::vector<TreeReproduction> lever_reproductions() {
  return {{"lever-table2", wasted_rows}, {"lever-table5", by_draft},   {"lever-table6", by_memory},
          {"lever-table7", by_length},   {"lever-fig5", by_tree_size}, {"lever-fig10", end_to_end},
          {"lever-fig11", by_policy},    {"lever-fig12", pruning},     {"lever-fig13", schedules}};
}

}  // namespace outrider

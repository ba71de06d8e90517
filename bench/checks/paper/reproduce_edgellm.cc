// EdgeLLM's and LLMCad's speeds against their rivals: by model, length, memory and size of the
// draft, and how alike the texts are. Pairs are synthetic where table I prints how often theirs
// agree; else the demo pair stands for them. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>
#include <numeric>

#include "bench/checks/paper/tree_study.h"

namespace outrider {
namespace {

using Names = TreeStudy::Names;

// LLMCad's and EdgeLLM's SP: they do not print how many tokens it drafts. Ours: 4.
const std::string kSp = "chain-4";

// A paper's statement about its own system over a rival, on its boards or phones.
struct OverRival {
  std::string rival;
  const char* name;  // in the papers
  PrintedRange printed;
};

// Prints and keeps the speeds, times the first policy.
void show_speeds(const std::string& of, const Names& policies, const TreeResults& results,
                 Findings& findings) {
  Json json = {{"of", of}};
  std::printf("  %s: s per token", of.c_str());
  for (const std::string& policy : policies) {
    const double seconds = 1 / tokens_per_s(results, policy);
    std::printf(", %s %.3f (%.2f)", policy.c_str(), seconds,
                speed_over(results, policy, policies.front()));
    json[policy] = seconds;
  }
  std::printf("\n");
  findings.rows.push_back(std::move(json));
}

constexpr const char* kSureChain =
    "a chain that ends at the first unsure token gains most where the draft knows when it is "
    "wrong, as the drafts here do";
constexpr const char* kTwoChains =
    "SpecInfer's chains are eight tokens long, whatever they cost: two rows a step are little on "
    "a board and much on a phone, and how alike the two drafts are is chosen";

const char* reason_of(const OverRival& rival, double ours, const char* pair) {
  if (rival.rival == "bld") return kSureChain;
  if (rival.rival == "specinfer") return kTwoChains;
  return ours < rival.printed.low ? kRisingThreshold : pair;
}

// pair: why the pair may matter.
void claim_over(const std::string& of, const std::string& ours, const OverRival& rival,
                const TreeResults& results, const char* pair, Findings& findings) {
  const double speed = speed_over(results, ours, rival.rival);
  claim_range(fmt::format("{}: over {}", of, rival.name), rival.printed, speed,
              reason_of(rival, speed, pair), findings);
}

// ------------------------------------------ EdgeLLM, figures 15 and 16; LLMCad, figures 12 and 13

constexpr const char* kDraftIsFaster =
    "the printed times forbid it: what is left of the target's time after the printed speed-up is "
    "many times a step of the draft, by LLMCad's table 1";

// Rows of table I, each a pair on its device.
Names policies_of(const Twin& twin) {
  Names policies = {"flash-ar-serial", "flash-ar", kSp, twin.policy(), twin.policy("navigation")};
  if (twin.is_edgellm) policies.insert(policies.end(), {"specinfer", "draft"});
  return policies;
}

Status by_pair(TreeStudy& study, const Twin& twin, const EdgellmCorrect& row,
               const std::vector<OverRival>& rivals, PrintedRange over_draft, Findings& findings) {
  study.use_pair(row);
  const Names policies = policies_of(twin);
  OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(policies));
  const std::string of = fmt::format("{}, {}", row.data_set, row.pair);
  show_speeds(of, policies, results, findings);
  for (const OverRival& rival : rivals) {
    claim_over(of, twin.policy(), rival, results, kMadePair, findings);
  }
  if (!twin.is_edgellm) return {};
  claim_range(of + ": Draft over it", over_draft, speed_over(results, "draft", twin.policy()),
              kDraftIsFaster, findings);
  return {};
}

// On the demo pair's text, since it takes text to be loose with: that of robot reports, where its
// draft is right as often as those of table I.
Status against_lossy(TreeStudy& study, const Twin& twin, const std::string& pace,
                     const std::vector<OverRival>& rivals, Findings& findings) {
  study.use_demo_pair(pace);
  Names policies = {"flash-ar-serial", twin.policy()};
  for (const OverRival& rival : rivals) policies.push_back(rival.rival);
  OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results,
                            study.run(policies, "bench/prompts/robot.jsonl"));
  const std::string of = "demo pair, robot reports";
  show_speeds(of, policies, results, findings);
  for (const OverRival& rival : rivals) {
    claim_over(of, twin.policy(), rival, results, kOtherPair, findings);
  }
  return {};
}

Status on_boards(TreeStudy& study, const Twin& twin, Findings& findings) {
  std::vector<OverRival> rivals = {{"flash-ar-serial", "Std", {2.9, 9.3}},
                                   {"flash-ar", "SPL", {2.9, 9.3}},
                                   {kSp, "SP", {1.93, 2.00}}};
  if (twin.is_edgellm) {
    rivals.push_back({"flash-ar-serial", "Std (section V)", {5.71, 5.71}});
    rivals.push_back({"specinfer", "SI", {1, 1.66}});
  }
  const EdgellmCorrect& row = edgellm_table1()[0];
  OUTRIDER_RETURN_IF_ERROR(by_pair(study, twin, row, rivals, {4.4, 4.4}, findings));
  OUTRIDER_RETURN_IF_ERROR(
      against_lossy(study, twin, std::string(row.pace), {{"bld", "BLD", {1.1, 1.4}}}, findings));
  findings.differences.push_back(
      "of nine models and data sets only mT5 on IWSLT has a printed share of correct tokens");
  return {};
}

Status on_phones(TreeStudy& study, const Twin& twin, Findings& findings) {
  std::vector<OverRival> rivals = {{"flash-ar-serial", "Std", {3.47, 4.67}},
                                   {kSp, "SP", {1.34, 1.77}}};
  if (twin.is_edgellm) rivals.push_back({"specinfer", "SI", {1, 1.42}});
  for (const EdgellmCorrect& row : edgellm_table1().subspan(1)) {
    OUTRIDER_RETURN_IF_ERROR(by_pair(study, twin, row, rivals, {2.7, 2.7}, findings));
  }
  return against_lossy(study, twin, std::string(edgellm_table1()[1].pace),
                       {{"bld", "BLD", {1.1, 1.3}}, {"sti", "STI", {1.83, 2.45}}}, findings);
}

// --------------------------------------------------------------------------- EdgeLLM, figure 17

Status by_length(TreeStudy& study, Findings& findings) {
  std::printf("EdgeLLM, figure 17: by length, times SP, BLD and SI (text: at 256 tokens)\n");
  const Names policies = {"flash-ar-serial", kSp, "bld", "specinfer", "edgellm"};
  study.use_pair(edgellm_table1()[2]);
  study.at_most(4);
  for (const Position length : {64, 128, 256}) {
    study.options().max_tokens = length;
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(policies));
    const std::string of = fmt::format("{} tokens", length);
    show_speeds(of, policies, results, findings);
    if (length != 256) continue;
    for (const OverRival& rival :
         {OverRival{kSp, "SP", {1.28, 1.86}}, OverRival{"bld", "BLD", {1.10, 1.36}},
          OverRival{"specinfer", "SI", {1.19, 1.29}}}) {
      claim_over(of, "edgellm", rival, results, kMadePair, findings);
    }
  }
  findings.differences.push_back(
      "a synthetic target finds no wrong token likely, so BLD lets none stand here");
  return {};
}

// ------------------------------------------------------- EdgeLLM, figure 18; LLMCad, figure 14

// The share of mT5-Large that stays in a Jetson TX2's memory: what the system leaves (2.1 GB of 4,
// EdgeLLM, section II-B), less the draft (LLMCad, table 1).
double resident_share(double gigabytes) {
  constexpr double kSystem = 1.9, kDraft = 0.7, kTarget = 3.9;
  return std::clamp((gigabytes - kSystem - kDraft) / kTarget, 0.0, 1.0);
}

struct MemoryRow {
  double gigabytes;
  PrintedRange over_spl, over_sp, over_bld;
};
constexpr MemoryRow kMemory[] = {{4, {6.12, 6.12}, {1.91, 1.91}, {1.25, 1.25}},
                                 {6, {5.54, 5.54}, {1.76, 1.76}, {1.12, 1.12}},
                                 {8, {}, {}, {}}};

Status by_memory(TreeStudy& study, const Twin& twin, Findings& findings) {
  std::printf("by memory of a Jetson TX2 (the text prints averages at 4 and 6 GB)\n");
  const Names policies = {"flash-ar", kSp, "bld", twin.policy(), "outrider"};
  study.use_pair(edgellm_table1()[0]);
  double before = 0;
  for (const MemoryRow& row : kMemory) {
    study.options().resident = resident_share(row.gigabytes);
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(policies));
    const std::string of =
        fmt::format("{} GB, {:.2f} of the layers", row.gigabytes, study.options().resident);
    show_speeds(of, policies, results, findings);
    const double over_sp = speed_over(results, twin.policy(), kSp);
    if (row.over_sp.low == 0) continue;
    if (!twin.is_edgellm) {
      claim_over(of, twin.policy(), {"flash-ar", "StdPL", row.over_spl}, results, kMadePair,
                 findings);
    }
    claim_over(of, twin.policy(), {kSp, "SP", row.over_sp}, results, kMadePair, findings);
    claim_over(of, twin.policy(), {"bld", "BLD", row.over_bld}, results, kMadePair, findings);
    if (before > 0) {
      claim_at_least("the lead over SP at 4 GB, over that at 6 GB", before, over_sp, kMadePair,
                     findings);
    }
    before = over_sp;
  }
  findings.differences.push_back(
      "on a Xiaomi 10 of 4 GB the draft alone, 4.1 GB by LLMCad's table 1, does not fit beside the "
      "system's 2 GB: its printed speed-ups (SP 1.55, BLD 1.34, STI 4.39) have no counterpart");
  return {};
}

// --------------------------------------------------------------------------- EdgeLLM, figure 19

// From the largest draft that fits into memory to smaller ones, which are faster and guess worse.
// Here noise on the demo draft's logits makes the smaller ones.
struct DraftSize {
  double step_ms, blur;
};
constexpr DraftSize kDraftSizes[] = {{40, 0}, {20, 0.5}, {10, 1}, {5, 2}, {2.5, 4}};

Status by_draft_size(TreeStudy& study, Findings& findings) {
  std::printf(
      "tokens/s by the draft's size (the figure's words: the largest draft that fits into memory "
      "is generally best)\n");
  const Names policies = {"flash-ar", kSp, "edgellm", "outrider"};
  std::vector<double> speeds;
  for (const DraftSize& size : kDraftSizes) {
    study.options().step_ms = size.step_ms;
    study.blur_draft(size.blur);
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results, study.run(policies));
    show_speeds(fmt::format("step {} ms, noise {:.1f}", size.step_ms, size.blur), policies, results,
                findings);
    speeds.push_back(tokens_per_s(results, "edgellm"));
  }
  claim_near("the largest draft over the next smaller one (T5-base over T5-small)", 1.05,
             speeds[0] / speeds[1], kOtherPair, findings);
  quote("Vicuna-33B with the 7B draft, over that with the 13B, which does not fit", 1.93, findings);
  findings.differences.push_back(
      "smaller drafts are the demo draft with noise on its logits: emulated, as the steps' times "
      "are");
  return {};
}

// ------------------------------------------------------------ EdgeLLM, table IV; LLMCad, table 4

constexpr const char* kLikeness =
    "the demo pair and its prompts stand for the papers': how alike a lossy text is depends on "
    "both";

struct LossyRow {
  const char *policy, *name;
  PrintedRange percent;
};
constexpr LossyRow kLossy[] = {
    {"draft", "Draft", {5.0, 82.5}}, {"sti", "STI", {76.5, 93.7}}, {"bld", "BLD", {3.4, 96.5}}};

Status likeness_of_texts(TreeStudy& study, const Twin& twin, Findings& findings) {
  std::printf("Rouge-L to the target's text, %%; speed, times Std\n");
  Names policies = {"flash-ar-serial", "flash-ar", kSp, twin.policy(), "sti", "bld"};
  if (twin.is_edgellm) policies.insert(policies.end(), {"specinfer", "draft"});
  study.use_demo_pair("llama2-13b-xiaomi10");
  for (const char* set : {"robot", "gsm8k", "mbpp"}) {
    OUTRIDER_ASSIGN_OR_RETURN(const TreeResults results,
                              study.run(policies, fmt::format("bench/prompts/{}.jsonl", set)));
    std::printf("  %-6s", set);
    Json json = {{"prompts", set}};
    for (const std::string& policy : policies) {
      const std::vector<double>& scores = results.likeness.at(policy);
      const double percent = 100 * std::accumulate(scores.begin(), scores.end(), 0.0) /
                             static_cast<double>(scores.size());
      const double speed = speed_over(results, policy, policies.front());
      std::printf(" %s %.1f (%.2f)", policy.c_str(), percent, speed);
      const auto lossy = std::ranges::find(kLossy, policy, &LossyRow::policy);
      const bool is_lossy = lossy != std::end(kLossy);
      json[policy] = {{"rouge_l", percent}, {"speed", speed}, {"lossy", is_lossy}};
      if (is_lossy) {
        claim_range(fmt::format("{}, {}: lossy, Rouge-L, %", set, lossy->name), lossy->percent,
                    percent, kLikeness, findings);
      } else if (policy != policies.front()) {
        findings.claims.push_back({.what = fmt::format("{}, {}: Rouge-L, %", set, policy),
                                   .printed = 100,
                                   .ours = percent,
                                   .band = Band::within(100, 0)});
      }
    }
    std::printf("\n");
    findings.rows.push_back(std::move(json));
  }
  findings.differences.push_back(fmt::format(
      "BLD falls back at {} and lets stand what costs the target up to {} nats, STI's shards have "
      "{} bits on average: our choice, none is printed",
      kBldFallback, kBldRollback, kStiBits));
  return {};
}

}  // namespace

std::vector<TreeReproduction> edgellm_reproductions() {
  return {reproduction_of(kEdgellm, "fig15", on_boards),
          reproduction_of(kEdgellm, "fig16", on_phones),
          {"edgellm-fig17", by_length},
          reproduction_of(kEdgellm, "fig18", by_memory),
          {"edgellm-fig19", by_draft_size},
          reproduction_of(kEdgellm, "table4", likeness_of_texts),
          reproduction_of(kLlmcad, "fig12", on_boards),
          reproduction_of(kLlmcad, "fig13", on_phones),
          reproduction_of(kLlmcad, "fig14", by_memory),
          reproduction_of(kLlmcad, "table4", likeness_of_texts)};
}

}  // namespace outrider

// Single passes and steps of EdgeLLM, LLMCad and LEVER: by arithmetic from their own tables, and on
// the emulated devices that are made of these. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/checks/paper/tree_study.h"

namespace outrider {
namespace {

void claim_formula(const std::string& what, double printed, double formula, const Band& band,
                   const char* reason, Findings& findings) {
  findings.claims.push_back(
      {.what = what, .printed = printed, .formula = formula, .band = band, .reason = reason});
}

// A pass that follows another one like it, after which the device has nothing to catch up with.
double steady_pass_ms(const NamedFlashPace& pace, std::size_t rows) {
  FlashDevice device(pace.device);
  TimePoint at{};
  Duration took{};
  for (int pass = 0; pass < 4; ++pass)
    at += took = device.pass(at, {.rows = rows, .left = rows}, 1);
  return to_ms(took);
}

// ----------------------------------------------------------------- LLMCad, table 1 and figure 3

constexpr PrintedRange kLoadingPercent{95.9, 98.8};
constexpr double kPercentBand = 2;  // points

// Where the target does not fit into memory, loading is nearly all of its time. Computing is taken
// to rise with the parameters from the smallest model of the family, which fits.
void claim_loading(Findings& findings) {
  for (const LlmcadDelay& row : llmcad_table1()) {
    if (row.times < 10) continue;
    const double percent = 100 * llmcad_pair(row.model).loading_share();
    const std::string name(row.model);
    std::printf("  %-10s loading %.1f %% of %.0f ms\n", name.c_str(), percent, row.ms);
    findings.rows.push_back({{"model", name}, {"loading_percent", percent}});
    claim_formula(fmt::format("{}: loading, % (printed {} to {})", name, kLoadingPercent.low,
                              kLoadingPercent.high),
                  kLoadingPercent.nearest(percent), percent,
                  {kLoadingPercent.low - kPercentBand, kLoadingPercent.high + kPercentBand}, "",
                  findings);
  }
}

Status llmcad_delays(TreeStudy&, Findings& findings) {
  std::printf(
      "LLMCad, table 1: times the smallest of the family; figure 3: the share of loading\n");
  for (const LlmcadDelay& row : llmcad_table1()) {
    const std::string name(row.model);
    quote(name + ": memory, GB", row.gigabytes, findings);
    if (row.model == row.first) continue;
    const double times = row.ms / llmcad_pair(row.model).draft_ms;
    std::printf("  %-10s %.0f ms, %.1f times (printed %.1f)\n", name.c_str(), row.ms, times,
                row.times);
    findings.rows.push_back({{"model", name}, {"times", times}, {"printed", row.times}});
    claim_formula(name + ": times the smallest of its family", row.times, times,
                  Band::near(row.times, 0.025),
                  row.model == "LLaMa-33B" ? "22017 ms are 80 times 275 ms" : "", findings);
  }
  claim_loading(findings);
  findings.differences.push_back(
      "the text has 59 to 224 times and 189 to 224 times, its table 3 has 59 times for 13B: table "
      "1 has 37 to 263 times");
  findings.differences.push_back(
      "table 1's caption names PyTorch for the phone and llama.cpp for the Jetson, the text the "
      "other way round");
  return {};
}

// ------------------------------------------------------------------------ EdgeLLM, figures 3, 9

Status edgellm_figure3(TreeStudy&, Findings& findings) {
  std::printf("EdgeLLM, figure 3: the share of loading, by LLMCad's table 1 of the same runs\n");
  claim_loading(findings);
  const double times = llmcad_pair("LLaMa-33B").target_ms / llmcad_pair("LLaMa-33B").draft_ms;
  claim_formula("Xiaomi 10: times as long with 4.7 times the size", 116, times,
                Band::near(116, kRelativeBand),
                "LLMCad's table 1, of the same devices and models, has 22017 ms over 275 ms",
                findings);
  quote("Jetson Orin: times as long beyond 30 billion parameters", 337, findings);
  return {};
}

constexpr double kTenBranches = 9.1;

Status edgellm_figure9(TreeStudy&, Findings& findings) {
  std::printf("EdgeLLM, figure 9: a step of ten branches takes 9.1 times as long as one of one\n");
  quote("a step of ten branches on a Jetson Orin, over one", kTenBranches, findings);
  quote("a step of ten branches on an A100, over one", 1.3, findings);
  claim_formula("ten branches in one step, over ten steps", 1.1, 10 / kTenBranches,
                Band::within(1.1, 0.05), "", findings);
  findings.differences.push_back("the emulated drafts of all commands take 9.1 from here");
  return {};
}

// ------------------------------------------------- EdgeLLM, figures 5 and 11; LLMCad, figure 9

constexpr const char* kVerified[][2] = {{"mT5-Large, TX2", "mt5-tx2"},
                                        {"LLaMA-13B, Xiaomi 10", "llama2-13b-xiaomi10"}};
constexpr int kMaxVerified = 10;

// One pass over so many tokens against a pass for each.
Status verification_by_length(TreeStudy&, Findings& findings) {
  std::printf("ten tokens are verified 8.5 to 9.9 times as fast in one pass as one by one\n");
  for (const auto& [name, pace_name] : kVerified) {
    OUTRIDER_ASSIGN_OR_RETURN(const NamedFlashPace pace, find_flash_pace(pace_name));
    const double one = steady_pass_ms(pace, 1);
    double faster = 0;
    for (const int tokens : {2, 4, 6, 8, kMaxVerified}) {
      const double together = steady_pass_ms(pace, static_cast<std::size_t>(tokens));
      faster = tokens * one / together;
      std::printf("  %-20s %2d tokens: %.0f ms one by one, %.0f ms at once, %.2f times\n", name,
                  tokens, tokens * one, together, faster);
      findings.rows.push_back({{"pair", name},
                               {"tokens", tokens},
                               {"one_by_one_ms", tokens * one},
                               {"at_once_ms", together}});
    }
    claim_range(fmt::format("{}: ten tokens at once, times one by one", name), {8.5, 9.9}, faster,
                "", findings);
  }
  return {};
}

Status verification_by_batch(TreeStudy&, Findings& findings) {
  std::printf("EdgeLLM, figure 11: branches verified at once take no longer than one\n");
  for (const auto& [name, pace_name] : kVerified) {
    OUTRIDER_ASSIGN_OR_RETURN(const NamedFlashPace pace, find_flash_pace(pace_name));
    const double one = steady_pass_ms(pace, 1);
    for (int batch = 2; batch <= kMaxVerified; batch += 2) {
      const double longer = steady_pass_ms(pace, static_cast<std::size_t>(batch)) / one;
      std::printf("  %-20s %2d branches: %.3f times as long\n", name, batch, longer);
      findings.rows.push_back({{"pair", name}, {"branches", batch}, {"times_as_long", longer}});
      if (batch != kMaxVerified) continue;
      findings.claims.push_back(
          {.what = fmt::format("{}: ten branches, times as long as one", name),
           .printed = 1,
           .ours = longer,
           .band = Band::within(1, 0.1)});
    }
  }
  return {};
}

// ------------------------------------------------------------------------------ LEVER, table 1

Status lever_delays(TreeStudy&, Findings& findings) {
  std::printf("LEVER, table 1, ms: reading and computing; the share of reading\n");
  for (const LeverTimes& row : lever_table1()) {
    const std::string name(row.model);
    const double total = row.compute_ms + row.read_ms;
    const double percent = 100 * row.read_ms / total;
    std::printf("  %-13s %.1f + %.1f = %.1f (printed %.1f), %.1f %% (printed %.1f)\n", name.c_str(),
                row.compute_ms, row.read_ms, total, row.total_ms, percent, row.read_percent);
    findings.rows.push_back({{"model", name}, {"total_ms", total}, {"read_percent", percent}});
    claim_formula(name + ": computing and reading, ms", row.total_ms, total,
                  Band::within(row.total_ms, 0.05), "", findings);
    claim_formula(name + ": reading, %", row.read_percent, percent,
                  Band::within(row.read_percent, 0.05), "", findings);
  }
  findings.differences.push_back(
      "by table 1 a row of Qwen3-4B computes for 131.5 ms, longer than one of Qwen3-8B (96.6 ms)");
  return {};
}

// LEVER, figure 4 prints no numbers; table 2 has the times of 16 and 32 tokens on the phone.
Status lever_parallelism(TreeStudy&, Findings& findings) {
  std::printf("LEVER, figure 4: verification by tokens (no numbers; here by tables 1 and 2)\n");
  for (const LeverTimes& row : lever_table1()) {
    if (!row.rows_printed) continue;
    const std::string name(row.model);
    for (const auto& [tokens, ms] : {std::pair{16, row.rows16_ms}, std::pair{32, row.rows32_ms}}) {
      const double longer = ms / row.compute_ms;
      std::printf("  %-13s %d tokens: %.1f times as long, %.2f times one by one\n", name.c_str(),
                  tokens, longer, tokens / longer);
      findings.rows.push_back({{"model", name}, {"tokens", tokens}, {"times_as_long", longer}});
      claim_formula(fmt::format("{}: {} tokens take longer than one", name, tokens), 1, longer,
                    Band::at_least(1.5), "", findings);
    }
  }
  return {};
}

// ---------------------------------------------------------------------------- EdgeLLM, table I

Status correct_tokens(TreeStudy& study, Findings& findings) {
  std::printf("EdgeLLM, table I: tokens that the draft generates as the target does\n");
  for (const EdgellmCorrect& row : edgellm_table1()) {
    std::printf("  printed: %s, %s %.1f %%\n", std::string(row.pair).c_str(),
                std::string(row.data_set).c_str(), 100 * row.share);
  }
  for (const char* set : {"robot", "gsm8k", "humaneval", "mbpp", "mt-bench"}) {
    OUTRIDER_ASSIGN_OR_RETURN(
        const TreeResults results,
        study.run(TreeStudy::Names{"flash-ar"}, fmt::format("bench/prompts/{}.jsonl", set)));
    const double share = static_cast<double>(results.correct) /
                         static_cast<double>(std::max<std::size_t>(results.tokens, 1));
    std::printf("  demo pair: %-10s %.1f %%\n", set, 100 * share);
    findings.rows.push_back({{"prompts", set}, {"correct", share}});
    claim_range(fmt::format("demo pair, {}: share of correct tokens", set), {0.816, 0.907}, share,
                "the demo pair stands for the papers' pairs: its draft was trained on robot "
                "reports, and knows other texts less",
                findings);
  }
  return {};
}

}  // namespace

std::vector<TreeReproduction> delay_reproductions() {
  return {{"llmcad-table1", llmcad_delays},         {"llmcad-fig9", verification_by_length},
          {"edgellm-fig3", edgellm_figure3},        {"edgellm-fig9", edgellm_figure9},
          {"edgellm-table1", correct_tokens},       {"edgellm-fig5", verification_by_length},
          {"edgellm-fig11", verification_by_batch}, {"lever-table1", lever_delays},
          {"lever-fig4", lever_parallelism}};
}

}  // namespace outrider

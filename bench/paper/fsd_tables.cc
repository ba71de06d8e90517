// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/fsd_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "bench/paces/paces.h"

namespace outrider {
namespace {

constexpr TokenPrices price(double input, double output) {
  return {.input = input, .output = output, .cached_input = input};
}

const std::array<PaperCost, 4> kTable1 = {
    {{"Together AI", "Qwen1.5-0.5B/72B", price(0.1, 0.1), price(0.9, 0.9), 540, 360, 270},
     {"OpenRouter", "llama-3.1-8b/405b", price(0.02, 0.05), price(0.9, 0.9), 540, 312, 270},
     {"Groq", "llama3-8b/70b-8192", price(0.05, 0.08), price(0.59, 0.79), 454, 286, 217},
     {"OpenRouter", "Qwen-2-VL-7B/72B", price(0.2, 0.2), price(0.7, 0.7), 420, 390, 210}}};

constexpr const char* kPaces[] = {"jetson-68m-7b", "rtx-68m-7b",           "jetson-160m-13b",
                                  "rtx-160m-13b",  "jetson-68m-llama2-7b", "rtx-68m-llama2-7b"};

constexpr std::array<PaperSpeed, 36> kTable6 = {
    {{"MT-bench", kPaces[0], 0.70, 1.04, 2.30, 0.6092, 8},
     {"MT-bench", kPaces[1], 1.30, 1.04, 2.01, 0.2007, 13},
     {"MT-bench", kPaces[2], 0.42, 1.05, 2.28, 0.6249, 9},
     {"MT-bench", kPaces[3], 0.97, 1.09, 2.98, 0.1640, 15},
     {"MT-bench", kPaces[4], 1.34, 1.07, 4.12, 0.3673, 9},
     {"MT-bench", kPaces[5], 2.01, 1.02, 3.48, 0.1338, 11},
     {"HumanEval", kPaces[0], 0.79, 1.04, 2.04, 0.6473, 7},
     {"HumanEval", kPaces[1], 1.42, 1.03, 2.66, 0.1579, 16},
     {"HumanEval", kPaces[2], 0.47, 1.06, 2.14, 0.5764, 8},
     {"HumanEval", kPaces[3], 0.85, 1.15, 2.04, 0.2516, 14},
     {"HumanEval", kPaces[4], 1.53, 1.22, 4.16, 0.176, 4},
     {"HumanEval", kPaces[5], 2.09, 1.07, 3.83, 0.0175, 3},
     {"GSM8K", kPaces[0], 0.63, 1.04, 2.08, 0.6121, 8},
     {"GSM8K", kPaces[1], 1.11, 1.08, 1.96, 0.1240, 13},
     {"GSM8K", kPaces[2], 0.40, 1.06, 2.23, 0.5804, 9},
     {"GSM8K", kPaces[3], 0.77, 1.13, 2.29, 0.1837, 14},
     {"GSM8K", kPaces[4], 1.15, 1.07, 3.48, 0.4187, 7},
     {"GSM8K", kPaces[5], 1.69, 1.06, 3.29, 0.0955, 10},
     {"Alpaca", kPaces[0], 0.63, 1.04, 2.09, 0.6460, 8},
     {"Alpaca", kPaces[1], 1.06, 1.07, 1.96, 0.1929, 14},
     {"Alpaca", kPaces[2], 0.42, 1.05, 2.32, 0.6094, 8},
     {"Alpaca", kPaces[3], 0.74, 1.12, 2.36, 0.2545, 14},
     {"Alpaca", kPaces[4], 1.42, 1.10, 4.29, 0.3660, 9},
     {"Alpaca", kPaces[5], 1.99, 1.18, 3.62, 0.0428, 2},
     {"CNN/DM", kPaces[0], 0.72, 1.03, 2.32, 0.7070, 10},
     {"CNN/DM", kPaces[1], 1.20, 1.07, 1.95, 0.2940, 15},
     {"CNN/DM", kPaces[2], 0.38, 1.03, 2.08, 0.6992, 8},
     {"CNN/DM", kPaces[3], 0.73, 1.07, 2.10, 0.3809, 16},
     {"CNN/DM", kPaces[4], 1.41, 1.07, 4.32, 0.4713, 14},
     {"CNN/DM", kPaces[5], 1.91, 1.04, 3.43, 0.1397, 13},
     {"NQ", kPaces[0], 0.65, 1.02, 2.08, 0.7150, 8},
     {"NQ", kPaces[1], 1.10, 1.06, 2.05, 0.2259, 14},
     {"NQ", kPaces[2], 0.46, 1.04, 2.44, 0.6325, 8},
     {"NQ", kPaces[3], 0.82, 1.12, 2.62, 0.3025, 15},
     {"NQ", kPaces[4], 1.26, 1.05, 3.83, 0.5711, 13},
     {"NQ", kPaces[5], 1.93, 1.01, 3.62, 0.1488, 14}}};

constexpr std::array<PaperExits, 4> kTable2 = {
    {{"Vicuna-7B", 31, 101, 1.48, 117, 32, 4096, 6738.4},
     {"Vicuna-13B", 39, 158, 1.20, 122, 40, 5120, 13015.9},
     {"Llama-2-7B", 31, 101, 1.48, 119, 32, 4096, 6738.4},
     {"Qwen2-VL-7B", 27, 88, 1.02, 136, 28, 3584, 8291.4}}};

constexpr std::array<PaperSystem, 7> kTable5 = {{{kPaces[0], 0.17, 15, 1.7},
                                                 {kPaces[1], 0.06, 30, 3.2},
                                                 {kPaces[2], 0.65, 7, 3.5},
                                                 {kPaces[3], 0.22, 15, 8.9},
                                                 {kPaces[4], 0.14, 15, 1.7},
                                                 {kPaces[5], 0.05, 30, 3.2},
                                                 {"go2-qwen2vl", 0.11, 6, 12.4}}};

constexpr PaperSpeed kTable8 = {"Unitree Go2", "go2-qwen2vl", 0.90, 1.34, 2.92, 0.5563, 8};

constexpr std::array<PaperQueues, 6> kTable7 = {{{"priority", "priority", {79.85, 62.93, 27.57}},
                                                 {"priority", "fifo", {80.40, 63.48, 27.73}},
                                                 {"random", "priority", {82.32, 63.25, 26.92}},
                                                 {"random", "fifo", {84.56, 65.36, 27.68}},
                                                 {"fifo", "priority", {82.61, 64.43, 27.69}},
                                                 {"fifo", "fifo", {85.43, 65.67, 27.84}}}};

}  // namespace

std::span<const PaperCost> paper_table1() {
  return kTable1;
}

std::span<const PaperExits> paper_table2() {
  return kTable2;
}

std::span<const PaperSystem> paper_table5() {
  return kTable5;
}

std::span<const PaperSpeed> paper_table6() {
  return kTable6;
}

const PaperSpeed& paper_table8() {
  return kTable8;
}

std::span<const PaperQueues> paper_table7() {
  return kTable7;
}

double formula_ar_to_sd(const PaperTimes& times, double tau, double tokens) {
  const double round = 2 * times.one_way_ms + times.drafting_ms + times.pass_ms;
  return (2 * times.one_way_ms / tokens + times.pass_ms) / (round / tau);
}

double formula_sd_to_fsd(const PaperTimes& times, double miss_rate) {
  const double fixed = 2 * times.one_way_ms + times.pass_ms;
  return (fixed + times.drafting_ms) /
         (fixed + miss_rate * times.drafting_ms + (1 - miss_rate) * times.sync_ms);
}

double implied_sync_ms(const PaperTimes& times, double miss_rate, double sd_to_fsd) {
  const double fixed = 2 * times.one_way_ms + times.pass_ms;
  const double round = (fixed + times.drafting_ms) / sd_to_fsd;
  return (round - fixed - miss_rate * times.drafting_ms) / (1 - miss_rate);
}

double threads_in_use(const PaperTimes& times, int layers) {
  return times.drafting_ms / (times.pass_ms / layers);
}

double equation9(double gamma, double latency_ratio, double miss_rate) {
  return (gamma * latency_ratio + 1) / (miss_rate * gamma * latency_ratio + 1);
}

std::optional<double> equation9_contour(double gamma, double latency_ratio, double speedup) {
  const double drafting = gamma * latency_ratio;
  if (drafting <= 0 || speedup <= 0) return std::nullopt;
  const double miss_rate = (drafting + 1 - speedup) / (speedup * drafting);
  if (miss_rate < 0 || miss_rate > 1) return std::nullopt;
  return miss_rate;
}

namespace {

constexpr int kDraftLength = 4;           // γ of tables 5, 6 and 8
constexpr double kPrintedAverage = 0.94;  // of table 6, AR to SD at rtx-160m-13b

PaperPace pace_named(std::string_view name) {
  return find_paces({std::string(name)})->front();
}

PaperTimes times_of(const PaperPace& pace) {
  return {kDraftLength * pace.step_ms, pace.pass_ms, pace.one_way_ms};
}

// From SD to FSD by table 4 with the averages of table 6, beside those it prints.
std::string savings_of_table6() {
  double least = 0, most = 0, printed_least = 0, printed_most = 0;
  for (const PaperPace& pace : paper_paces()) {
    if (!pace.paper || pace.name == paper_table8().pace) continue;
    const double formula = formula_sd_to_fsd(times_of(pace), pace.paper->miss_rate);
    const double printed = pace.paper->sd_to_fsd;
    least = least == 0 ? formula : std::min(least, formula);
    most = std::max(most, formula);
    printed_least = printed_least == 0 ? printed : std::min(printed_least, printed);
    printed_most = std::max(printed_most, printed);
  }
  return fmt::format(
      "with its own r, table 4's formula gives {:.2f} to {:.2f} from SD to FSD where table 6 "
      "prints "
      "{:.2f} to {:.2f} on average",
      least, most, printed_least, printed_most);
}

std::string average_of_table6() {
  const PaperPace pace = pace_named("rtx-160m-13b");
  double speed = 0, misses = 0, count = 0;
  for (const PaperSpeed& row : paper_table6()) {
    if (row.pace != pace.name) continue;
    speed += row.ar_to_sd;
    misses += row.miss_rate;
    ++count;
  }
  return fmt::format(
      "rtx-160m-13b: table 6 prints {:.2f} as the average from AR to SD, its six rows average "
      "{:.2f}; "
      "of the misses it prints {:.1f} %, the rows average {:.1f} %",
      kPrintedAverage, speed / count, 100 * pace.paper->miss_rate, 100 * misses / count);
}

std::string limit_of_table8() {
  const PaperSpeed& row = paper_table8();
  const PaperTimes times = times_of(pace_named(row.pace));
  return fmt::format(
      "table 8 prints {:.2f} from SD to FSD with r = {:.2f}; by table 4 that r gives {:.2f}, and "
      "{:.2f} is the limit at r = 0",
      row.sd_to_fsd, row.miss_rate, formula_sd_to_fsd(times, row.miss_rate),
      formula_sd_to_fsd(times, 0));
}

std::string threads_of_table7() {
  const PaperQueues& best = paper_table7().front();
  const auto row = std::ranges::find_if(paper_table6(), [](const PaperSpeed& one) {
    return one.data_set == "GSM8K" && one.pace == "rtx-68m-7b";
  });
  return fmt::format(
      "table 7's misses with 10 threads ({:.0f} %) are twice those that table 6 prints for the "
      "same "
      "pair and device (GSM8K: {:.0f} %): the two do not share their number of threads",
      best.misses[2], 100 * row->miss_rate);
}

std::string use_of_threads() {
  const PaperPace pace = pace_named("rtx-68m-7b");
  return fmt::format(
      "{} exits speak every {:.1f} ms of a pass and hold a thread for {:.0f} ms each, which keeps "
      "{:.1f} threads busy: by these inputs neither table 7 nor figure 4a can gain beyond that",
      pace.target_layers - 1, pace.pass_ms / pace.target_layers, kDraftLength * pace.step_ms,
      threads_in_use(times_of(pace), pace.target_layers));
}

std::string order_of_table7() {
  const PaperQueues &priority = paper_table7()[0], &random = paper_table7()[2];
  return fmt::format(
      "the text says that priority at the client always beats random; with 10 threads table 7 "
      "prints "
      "{:.2f} for priority and {:.2f} for random",
      priority.misses[2], random.misses[2]);
}

}  // namespace

std::vector<std::string> contradictions_of(std::string_view what) {
  const char* const input =
      "table 5 is an input here: drafting, pass and link times were measured apart from the "
      "speed-ups, and cloud decoding's own time per token is not printed";
  if (what == "fsd-table6") return {input, savings_of_table6(), average_of_table6()};
  if (what == "fsd-table8") return {limit_of_table8()};
  if (what == "fsd-table7") {
    return {threads_of_table7(), order_of_table7(), use_of_threads(),
            "table 7's caption calls r a response time; its text and numbers are the miss rate"};
  }
  if (what == "fsd-table9") {
    return {
        "table 9's Jetson times fall from 2 to 3 rows (8.02, 7.57) and are level at 4 (7.87); we "
        "keep 8.02"};
  }
  if (what == "fsd-fig4") return {input, use_of_threads()};
  if (what == "fsd-fig6") {
    return {fmt::format(
        "appendix B says over 5 times for c above 0.5 and r below 10 %; at c = 0.5 and r = 10 % "
        "equation 9 gives {:.1f} with gamma = 10",
        equation9(10, 0.5, 0.1))};
  }
  if (what == "fsd-fig7") {
    return {
        "figure 7 has no numbers in print: its curve is what the text says of it, 20 to 30 % in "
        "the "
        "first layers, a steady rise, sharp behind the middle; it counts tokens, a round needs the "
        "whole outcome"};
  }
  return {};
}

}  // namespace outrider

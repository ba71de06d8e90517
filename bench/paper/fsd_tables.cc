// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/fsd_tables.h"

#include <array>

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
  return (fixed + times.drafting_ms) / (fixed + miss_rate * times.drafting_ms);
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

}  // namespace outrider

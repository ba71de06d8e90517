// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/flash_tables.h"

#include <algorithm>
#include <array>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr double kQwen8Read = 953.4, kQwen8Rows16 = 817, kQwen8Rows32 = 1229;

constexpr LeverTimes by_reading(std::string_view model, double compute, double read, double total,
                                double percent) {
  const double scale = read / kQwen8Read;
  return {model, compute, read, total, percent, kQwen8Rows16 * scale, kQwen8Rows32 * scale, false};
}

constexpr std::array kLeverTable1 = {
    LeverTimes{"Llama-3.1-8B", 93.2, 990.6, 1083.8, 91.4, 828, 1255, true},
    by_reading("Qwen3-4B", 131.5, 474.4, 605.9, 78.3),
    LeverTimes{"Qwen3-8B", 96.6, kQwen8Read, 1050.0, 90.8, kQwen8Rows16, kQwen8Rows32, true},
    by_reading("Qwen3-14B", 141.2, 1967.1, 2108.3, 93.3)};

constexpr std::array kLeverTable2 = {
    LeverWaste{"Llama-3.1-8B", 16, 828, 188, 22.7}, LeverWaste{"Llama-3.1-8B", 32, 1255, 256, 20.4},
    LeverWaste{"Qwen3-8B", 16, 817, 183, 22.4}, LeverWaste{"Qwen3-8B", 32, 1229, 249, 20.3}};

constexpr std::array kLlmcadTable1 = {LlmcadDelay{"LLaMa-7B", "LLaMa-7B", 7, 4.1, 275, 1},
                                      LlmcadDelay{"LLaMa-13B", "LLaMa-7B", 13, 9.8, 10118, 37},
                                      LlmcadDelay{"LLaMa-33B", "LLaMa-7B", 33, 20.8, 22017, 87},
                                      LlmcadDelay{"GPT2", "GPT2", 0.14, 0.5, 37.64, 1},
                                      LlmcadDelay{"GPT2-Large", "GPT2", 0.8, 3.1, 8065, 214},
                                      LlmcadDelay{"mT5-Small", "mT5-Small", 0.3, 0.7, 31, 1},
                                      LlmcadDelay{"mT5-Base", "mT5-Small", 0.58, 1.5, 2134, 69},
                                      LlmcadDelay{"mT5-Large", "mT5-Small", 1.2, 3.9, 7214, 230},
                                      LlmcadDelay{"T5-Small", "T5-Small", 0.06, 0.2, 27, 1},
                                      LlmcadDelay{"T5-Base", "T5-Small", 0.22, 0.8, 37, 1.4},
                                      LlmcadDelay{"T5-Large", "T5-Small", 0.73, 2.8, 7098, 263}};

constexpr std::array kEdgellmFigure20 = {EdgellmParts{"mT5", 0.33, 7.2, 0.48},
                                         EdgellmParts{"GPT2", 0.46, 8.0, 0.78},
                                         EdgellmParts{"LLaMa-2", 1.3, 15.2, 2.5}};

constexpr std::array kEdgellmTable1 = {
    EdgellmCorrect{"IWSLT2017 de-en", "mT5-Small, mT5-Large", "mt5-tx2", 0.816},
    EdgellmCorrect{"CNN/Daily", "LLaMA-2-Chat 7B, 13B", "llama2-13b-xiaomi10", 0.907},
    EdgellmCorrect{"SQuAD", "LLaMA-2-Chat 7B, 13B", "llama2-13b-xiaomi10", 0.899},
    EdgellmCorrect{"TruthfulQA", "LLaMA-2-Chat 7B, 13B", "llama2-13b-xiaomi10", 0.871}};

const LlmcadDelay& delay_of(std::string_view model) {
  const auto found = std::ranges::find(kLlmcadTable1, model, &LlmcadDelay::model);
  OUTRIDER_CHECK(found != kLlmcadTable1.end());
  return *found;
}

}  // namespace

std::span<const LeverTimes> lever_table1() {
  return kLeverTable1;
}

const LeverTimes& lever_times(std::string_view model) {
  const auto found = std::ranges::find(kLeverTable1, model, &LeverTimes::model);
  OUTRIDER_CHECK(found != kLeverTable1.end());
  return *found;
}

std::span<const LeverWaste> lever_table2() {
  return kLeverTable2;
}

std::span<const LlmcadDelay> llmcad_table1() {
  return kLlmcadTable1;
}

LlmcadPair llmcad_pair(std::string_view target) {
  const LlmcadDelay& large = delay_of(target);
  const LlmcadDelay& small = delay_of(large.first);
  return {.draft_ms = small.ms,
          .target_ms = large.ms,
          .size_ratio = large.parameters / small.parameters};
}

std::span<const EdgellmParts> edgellm_figure20() {
  return kEdgellmFigure20;
}

std::span<const EdgellmCorrect> edgellm_table1() {
  return kEdgellmTable1;
}

}  // namespace outrider

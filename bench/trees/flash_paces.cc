// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/flash_paces.h"

#include <utility>

#include "bench/paper/flash_tables.h"

namespace outrider {
namespace {

// EdgeLLM, figure 9: each further row of a step costs this share of the first.
constexpr double kFurtherRow = 0.9;
constexpr int kDraftRows = 10;
constexpr int kPassRows = 512;

// Straight lines from 1 to 16 to 32 rows, and on.
PaceCurve pass_curve(double one, double sixteen, double thirty_two) {
  const double slope = (thirty_two - sixteen) / 16;
  return *PaceCurve::create({{1, one},
                             {16, sixteen},
                             {32, thirty_two},
                             {kPassRows, thirty_two + slope * (kPassRows - 32)}});
}

NamedFlashPace lever_pace(const char* name, int layers, double head_share, double bytes,
                          const LeverTimes& times) {
  return {.name = name,
          .device = {.layers = layers,
                     .read_ms = times.read_ms,
                     .head_share = head_share,
                     .compute = pass_curve(times.compute_ms, times.rows16_ms, times.rows32_ms)},
          .bytes = bytes};
}

NamedFlashPace edge_pace(const char* name, int layers, double head_share, const LlmcadPair& pair,
                         double read_beside_draft = 1) {
  const double row = pair.compute_ms();
  const auto of_rows = [row](int rows) { return row * (1 + kFurtherRow * (rows - 1)); };
  return {.name = name,
          .device = {.layers = layers,
                     .read_ms = pair.target_ms - row,
                     .head_share = head_share,
                     .compute = pass_curve(row, of_rows(16), of_rows(32))},
          .step_ms = pair.draft_ms,
          .read_beside_draft = read_beside_draft};
}

}  // namespace

// Layers and output matrices are public, and not in the papers: 128,256 x 4,096 of 8.03 G weights;
// 151,936 x 2,560 of 4.02 G, x 4,096 of 8.19 G and x 5,120 of 14.8 G; 250,112 x 1,024 of 1.2 G;
// 32,128 x 1,024 of 0.73 G; 50,257 x 1,280 of 0.8 G; 32,000 x 5,120 of 13 G.
std::vector<NamedFlashPace> flash_paces() {
  return {lever_pace("lever-llama31-8b", 32, 0.065, 4.0e9, lever_times("Llama-3.1-8B")),
          lever_pace("lever-qwen3-8b", 36, 0.076, 4.1e9, lever_times("Qwen3-8B")),
          lever_pace("lever-qwen3-4b", 36, 0.097, 2.0e9, lever_times("Qwen3-4B")),
          lever_pace("lever-qwen3-14b", 40, 0.053, 7.4e9, lever_times("Qwen3-14B")),
          edge_pace("mt5-tx2", 24, 0.21, llmcad_pair("mT5-Large")),
          edge_pace("t5-tx2", 24, 0.045, llmcad_pair("T5-Large")),
          edge_pace("gpt2-tx2", 36, 0.08, llmcad_pair("GPT2-Large")),
          edge_pace("llama2-13b-xiaomi10", 40, 0.013, llmcad_pair("LLaMa-13B"), 1.5)};
}

Result<NamedFlashPace> find_flash_pace(const std::string& name) {
  std::string names;
  for (NamedFlashPace& pace : flash_paces()) {
    if (pace.name == name) return std::move(pace);
    names += (names.empty() ? "" : ", ") + pace.name;
  }
  return invalid_argument("--pace " + name + ": expected one of " + names);
}

PaceCurve flash_step_curve(const NamedFlashPace& pace) {
  const double last = pace.step_ms * (1 + pace.step_row * (kDraftRows - 1));
  return *PaceCurve::create({{1, pace.step_ms}, {kDraftRows, last}});
}

}  // namespace outrider

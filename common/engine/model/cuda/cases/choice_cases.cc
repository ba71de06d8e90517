// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "common/engine/model/cuda/cases/drawn.h"
#include "common/engine/model/cuda/cases/kernel_cases.h"
#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/nucleus.h"
#include "common/engine/sampling/sampling.h"
#include "common/engine/sampling/select.h"

namespace outrider::gpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// So near 1 that what is left out are a few units of weight (common/engine/sampling/noise.h).
constexpr float kAlmostAll = 0x1.fffffep-1f;

constexpr std::array<SamplingParams, 12> kFilters = {{
    {},
    {.top_k = 1},
    {.top_k = 40},
    {.top_k = 2000},
    {.top_p = 0.0f},
    {.top_p = 0.5f},
    {.top_p = 0.95f},
    {.top_p = kAlmostAll},
    {.min_p = 0.01f},
    {.top_k = 40, .top_p = 0.95f},
    {.top_k = 500, .top_p = 0.9f, .min_p = 0.001f},
    {.top_p = 0.9f, .min_p = 1.0f},
}};
constexpr std::array<float, 8> kTemperatures = {0.0f, 0.7f, 1.0f, 0.7f, 0.01f, 0.3f, 2.5f, 100.0f};

// At this position their first words are rare: 0xffffff8a and 0x2f, at the noise's ends, where its
// parts round to 1, and such as show each rounding of its logarithm, the rarest one in three
// million.
constexpr std::array<std::uint64_t, 6> kRareSeeds = {94667643, 31690651, 2204515,
                                                     3446552,  5634,     5259};
constexpr std::int64_t kRarePosition = 5;

// Draws logits as models give them, and some that none should give; the first shapes come most
// often.
float draw_logit(int shape, Drawn& drawn) {
  const float value = drawn.plain();
  switch (shape) {
    case 0:  // a few far above the others
      return drawn.below(50) == 0 ? 12.0f + 3 * value : 4 * value;
    case 1:  // all alike
      return 0.01f * value;
    case 2:  // many equal ones
      return std::round(3 * value);
    case 3:  // one value, of either sign of zero
      return value < 0 ? -0.0f : 0.0f;
    case 4:  // mostly excluded
      return drawn.below(20) == 0 ? value : -kInfinity;
    case 5: {  // damaged
      const std::int64_t kind = drawn.below(40);
      if (kind == 0) return std::numeric_limits<float>::quiet_NaN();
      if (kind == 1) return -kInfinity;
      if (kind == 2) return drawn.below(30) == 0 ? kInfinity : 3e38f * value;
      return drawn.odd(1e30f);
    }
    case 6:  // nothing can be chosen
      return value < 0 ? -kInfinity : std::numeric_limits<float>::quiet_NaN();
    default:  // so close to each other that their scores are equal
      return drawn.below(4) == 0 ? -kInfinity : value * 0x1p-146f;
  }
}

int draw_shape(Drawn& drawn) {
  const auto number = static_cast<int>(drawn.below(24));
  return number < 8 ? number : number % 3;
}

cuda::RowChoice draw_choice(Drawn& drawn) {
  const SamplingParams& filters = kFilters[static_cast<std::size_t>(drawn.below(12))];
  return {.seed = drawn.bits(),
          .position = static_cast<std::int64_t>(drawn.bits() >> 40),
          .temperature = kTemperatures[static_cast<std::size_t>(drawn.below(8))],
          .top_p = filters.top_p,
          .min_p = filters.min_p,
          .top_k = filters.top_k,
          .is_wanted = 1};
}

// One far above many, whose weights are a few units each: what top_p leaves shows each unit.
cuda::RowChoice draw_tail(std::span<float> logits, Drawn& drawn) {
  for (float& logit : logits) logit = -23.1f + 0.3f * drawn.plain();
  logits.front() = 0;
  return {.seed = drawn.bits(), .temperature = 1, .top_p = kAlmostAll, .is_wanted = 1};
}

// The token with its score; token -1 where none can be chosen.
Candidate choose_on_cpu(std::span<const float> logits, const cuda::RowChoice& row) {
  const auto counts = [](float x) { return x > -kInfinity; };
  if (row.is_wanted == 0 || std::none_of(logits.begin(), logits.end(), counts)) return {-1, 0};
  const SamplingParams params{row.temperature, row.top_k, row.top_p, row.min_p};
  return rank(logits, params, row.seed, static_cast<Position>(row.position), 1).front();
}

// How many tokens top_p leaves, where it alone filters.
std::int64_t kept_on_cpu(std::span<const float> logits, const cuda::RowChoice& row) {
  std::vector<float> scores((logits.size() + kNoiseGroup - 1) / kNoiseGroup * kNoiseGroup,
                            -kInfinity);
  std::vector<float> weights(scores.size());
  scale_logits(logits, max_logit(logits), row.temperature, scores);
  exp_row(scores, weights);
  Nucleus nucleus;
  return std::ssize(nucleus.find(std::span(scores).first(logits.size()), weights, row.top_p));
}

std::int64_t kept_by(const cuda::FoundChoice& found, std::span<const float> logits,
                     const cuda::RowChoice& row) {
  std::vector<float> scores(logits.size());
  scale_logits(logits, max_logit(logits), row.temperature, scores);
  std::int64_t kept = 0;
  for (std::size_t token = 0; token < scores.size(); ++token) {
    const std::uint64_t depth = std::bit_cast<std::uint32_t>(scores[token]) & 0x7fffffffu;
    kept += (depth << 32 | token) < found.end_by_score ? 1 : 0;
  }
  return kept;
}

bool filters_alike(const cuda::FoundChoice& found, std::span<const float> logits,
                   const cuda::RowChoice& row) {
  const bool compared = found.best > 0 && row.temperature > 0 && row.top_k == 0 && row.top_p < 1;
  return !compared || kept_by(found, logits, row) == kept_on_cpu(logits, row);
}

Candidate choice_of(const cuda::FoundChoice& found) {
  if (found.best == 0) return {-1, 0};
  return {token_of(found.best), value_of(found.best)};
}

}  // namespace

CaseResult check_choices(const CaseContext& context, std::int64_t rows, std::int64_t tokens) {
  CaseResult result{"choices of " + std::to_string(tokens) + " tokens"};
  Drawn drawn(context.seed);
  CaseMemory& memory = context.memory;
  const std::int64_t stride = tokens + drawn.below(5);
  std::vector<float> logits(static_cast<std::size_t>(rows * stride), 1e9f);
  std::vector<cuda::RowChoice> choices;
  bool has_filters = false;
  for (std::int64_t row = 0; row < rows; ++row) {
    const int shape = draw_shape(drawn);
    float* const to = logits.data() + row * stride;
    for (std::int64_t i = 0; i < tokens; ++i) to[i] = draw_logit(shape, drawn);
    choices.push_back(draw_choice(drawn));
    if (row == 0 && tokens > 2000) {
      choices.back() = draw_tail({to, static_cast<std::size_t>(tokens)}, drawn);
    }
    if (tokens == 1 && row < std::ssize(kRareSeeds)) {
      *to = 0;
      choices.back() = {.seed = kRareSeeds[static_cast<std::size_t>(row)],
                        .position = kRarePosition,
                        .temperature = 1,
                        .is_wanted = 1};
    }
    has_filters = has_filters || choices.back().top_k > 0 || choices.back().top_p < 1;
  }
  choices.push_back({});  // of which nothing is chosen
  logits.resize(logits.size() + static_cast<std::size_t>(stride), 1e9f);
  const cuda::TokenChoices task{
      .logits = memory.upload(logits),
      .stride = stride,
      .rows = memory.upload(choices),
      .found = memory.upload(std::vector<cuda::FoundChoice>(choices.size())),
      .tokens = static_cast<std::int32_t>(tokens)};
  cuda::choose_tokens(task, rows + 1, has_filters, context.stream);
  const auto found = memory.download(task.found, choices.size());
  for (std::size_t row = 0; row < choices.size(); ++row) {
    const std::span<const float> of_row(logits.data() + row * static_cast<std::size_t>(stride),
                                        static_cast<std::size_t>(tokens));
    const Candidate expected = choose_on_cpu(of_row, choices[row]), got = choice_of(found[row]);
    ++result.outputs;
    const bool is_equal = got.token == expected.token && got.score == expected.score &&
                          filters_alike(found[row], of_row, choices[row]);
    result.different += is_equal ? 0 : 1;
  }
  memory.clear();
  return result;
}

CaseResult check_noise(const CaseContext& context, std::int64_t rows) {
  CaseResult result{"noise"};
  Drawn drawn(context.seed);
  CaseMemory& memory = context.memory;
  std::vector<cuda::RowChoice> choices;
  for (std::int64_t row = 0; row < rows; ++row) {
    choices.push_back({.seed = drawn.bits(), .position = row, .temperature = 1, .is_wanted = 1});
  }
  const std::vector<float> logits(choices.size());
  const cuda::TokenChoices task{
      .logits = memory.upload(logits),
      .stride = 1,
      .rows = memory.upload(choices),
      .found = memory.upload(std::vector<cuda::FoundChoice>(choices.size())),
      .tokens = 1};
  cuda::choose_tokens(task, rows, false, context.stream);
  for (const cuda::FoundChoice& found : memory.download(task.found, choices.size())) {
    const auto row = static_cast<std::size_t>(result.outputs++);
    const Candidate expected = choose_on_cpu(std::span(logits).first(1), choices[row]);
    result.different += choice_of(found).score == expected.score ? 0 : 1;
  }
  memory.clear();
  return result;
}

}  // namespace outrider::gpu

// SPDX-License-Identifier: Apache-2.0
#include "bench/choice/choice_comparison.h"

#include <algorithm>
#include <array>
#include <bit>
#include <sstream>
#include <vector>

#include "bench/choice/plain_choice.h"
#include "bench/choice/row_shapes.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr std::array<SamplingParams, 12> kFilters = {{
    {},
    {.top_k = 1},
    {.top_k = 40},
    {.top_k = 2000},
    {.top_p = 0.5f},
    {.top_p = 0.95f},
    {.top_p = 0.999f},
    {.min_p = 0.01f},
    {.min_p = 1e-6f},
    {.top_k = 40, .top_p = 0.95f},
    {.top_k = 500, .top_p = 0.9f, .min_p = 0.001f},
    {.top_p = 0.9f, .min_p = 1.0f},
}};
constexpr std::array<float, 8> kTemperatures = {0.7f, 1.0f, 0.7f, 1.0f, 0.01f, 0.3f, 2.5f, 100.0f};

// Also sizes that are no multiple of the group.
std::size_t drawn_vocab(std::int64_t number, std::uint64_t random) {
  const std::int64_t place = number % 100;
  if (place == 99) return 151'936;
  if (place == 98) return random % 2 == 0 ? 49'152 : 128'256;
  const std::size_t most = place >= 90 ? 32'000 : 3'072;
  if (random % 16 == 0) return 1 + random / 16 % 200;
  return random % 2 == 0 ? most : most - random / 16 % 200;
}

SamplingParams drawn_params(std::uint64_t random) {
  SamplingParams params = kFilters[random % kFilters.size()];
  params.temperature = kTemperatures[random / 16 % kTemperatures.size()];
  return params;
}

bool same(const Candidate& a, const Candidate& b) {
  return a.token == b.token &&
         std::bit_cast<std::uint32_t>(a.score) == std::bit_cast<std::uint32_t>(b.score);
}

bool chooses_alike(const std::vector<float>& row, const SamplingParams& params,
                   std::uint64_t seed) {
  const auto position = static_cast<Position>(seed >> 40);
  if (choose(row, params, seed, position) != choose_plainly(row, params, seed, position)) {
    return false;
  }
  const int count = seed % 8 == 0 ? 1000 : static_cast<int>(seed % 9);
  return std::ranges::equal(rank(row, params, seed, position, count),
                            rank_plainly(row, params, seed, position, count), same);
}

std::string describe(std::int64_t number, RowShape shape, std::size_t vocab,
                     const SamplingParams& params) {
  std::ostringstream text;
  text << "row " << number << ": " << to_string(shape) << ", " << vocab << " tokens, temperature "
       << params.temperature << ", top_k " << params.top_k << ", top_p " << params.top_p
       << ", min_p " << params.min_p;
  return text.str();
}

}  // namespace

ComparedRows compare_choices(std::int64_t first, std::int64_t rows) {
  ComparedRows compared;
  std::vector<float> row;
  for (std::int64_t number = first; number < first + rows; ++number) {
    const std::uint64_t random = scrambled(kGoldenStep * static_cast<std::uint64_t>(number + 1));
    const std::size_t vocab = drawn_vocab(number, random);
    const auto shape = static_cast<RowShape>((random >> 32) % kNumRowShapes);
    const SamplingParams params = drawn_params(random >> 16);
    draw_row(shape, vocab, random, row);
    ++compared.rows;
    if (chooses_alike(row, params, scrambled(random + kGoldenStep))) continue;
    if (compared.wrong++ == 0) compared.first_wrong = describe(number, shape, vocab, params);
  }
  return compared;
}

}  // namespace outrider

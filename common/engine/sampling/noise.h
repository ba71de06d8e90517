// The noise of the law of choice, and the vector loops over a row of logits around it.
//
// g(seed, t, v) is Gumbel noise: Philox under key `seed` gives 32 bits x for (t, v);
// w = (x + 1/2) / 2^32 is uniform in (0, 1); g = -log(-log(1 - w)). Small w makes the large g that
// decide, so they keep w's full precision. Largest g: 22.9; smallest: -2.82.
//
// Layout (since noise version 1): token v takes word (v / 16) % 4 of the block with
// counter {v / 64 * 16 + v % 16, 0, low half of t, high half of t}: sixteen blocks give the noise
// of 64 neighbours in order, whatever the width of the vectors.
//
// Thread rule: pure functions; the same bits on every CPU. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/types.h"

namespace outrider {

// No noise exceeds it: -log(-log(1 - 2^-33)) is 22.874, and rounding adds less than 2^-6.
inline constexpr float kLargestNoise = 22.89f;

// Rows of scores that the loops below write are padded to multiples of this.
inline constexpr std::size_t kNoiseGroup = 64;

struct NoiseKey {
  std::uint64_t seed = 0;
  Position position = 0;
};

// scores[i] += g(first_token + i), the plain way, which perturbed.h is held to. first_token and the
// number of scores: multiples of kNoiseGroup.
void add_noise(const NoiseKey& key, TokenId first_token, std::span<float> scores);

// scores[i] += g(tokens[i]). As many tokens as scores, a multiple of kNoiseGroup.
void add_noise_at(const NoiseKey& key, std::span<const TokenId> tokens, std::span<float> scores);

// y[i] = exp(x[i]). As many x as y, a multiple of kNoiseGroup.
void exp_row(std::span<const float> x, std::span<float> y);

// A weight of 0 to 1 in units of 2^-40, rounded to the nearest. Sums of these are exact: no order
// of adding changes them.
std::uint64_t weight_units(float weight);

// The sum of weight_units() of the weights. As many as a multiple of kNoiseGroup.
std::uint64_t sum_weight_units(std::span<const float> weights);

// The largest entry; NaN counts as -infinity, +infinity as the largest finite f32. -infinity for
// an empty row.
float max_logit(std::span<const float> logits);

// scaled[i] = (logits[i] - max) / temperature for every logit, read as max_logit() reads it: at
// most 0 for max = max_logit(logits). temperature > 0, max > -infinity; scaled is not shorter.
void scale_logits(std::span<const float> logits, float max, float temperature,
                  std::span<float> scaled);

// The place of the first entry that max_logit() finds. 0 if that is -infinity.
std::size_t arg_max(std::span<const float> logits);

}  // namespace outrider

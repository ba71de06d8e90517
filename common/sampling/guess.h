// Guesses for the next token by the law of choice, and how sure the guessing model is.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/sampling/sampling.h"

namespace outrider {

// A candidate for the next token.
struct Guess {
  TokenId token = 0;
  float confidence = 0;  // 0..1
};

// Guesses for the token at `position` from one row of logits [vocab], best first by perturbed
// score. Confidence: the softmax at T = 0; at T > 0 the logistic of the perturbed gap to the best
// other candidate, so the first is above 1/2 and the others below.
std::vector<Guess> guess_next(std::span<const float> logits, const SamplingParams& sampling,
                              std::uint64_t seed, Position position, int fan_out);

}  // namespace outrider

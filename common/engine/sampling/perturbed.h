// The largest scores of a row with its noise, found without computing the noise of every token.
//
// The score of token v is fl(fl(fl(x - max) / T) + g): x is its logit, max the row's largest, fl()
// the rounding to f32, g the noise. Each step is a correctly rounded operation that rises with its
// operand, so the score rises with x and with g, rounded as they are. Let top be the score before
// noise of the largest logit among some tokens, and bound a number that none of their noise
// exceeds: none of their scores exceeds fl(top + bound). If that is below `count` scores that are
// known, these tokens are not among the `count` best, and nothing more is computed of them.
// Equality does not exclude: the id decides between equal scores. What is left is computed as
// stated, so the result has the bits of the full evaluation.
//
// Groups of kNoiseGroup tokens are excluded by the largest noise of all; else random words are
// drawn, which cost little, and each sixteen tokens are excluded by a bound on the noise of their
// words.
//
// Thread rule: pure functions; the same bits on every CPU. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/select.h"

namespace outrider {

struct PerturbedRow {
  NoiseKey key;
  std::span<const float> logits;  // read as max_logit() reads them
  float temperature = 1.0f;       // above 0
  // The token of each logit, padded to a multiple of kNoiseGroup with any tokens; empty: token i
  // stands at place i.
  std::span<const TokenId> tokens = {};
};

// Leaves the `count` best scores of the row in `keys`, the best first; ids are places in the row.
// Entries of -infinity and NaN never count. `keys` keeps its memory from call to call.
void select_perturbed(const PerturbedRow& row, std::size_t count, std::vector<SelectKey>& keys);

}  // namespace outrider

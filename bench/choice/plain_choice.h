// The law of choice evaluated in full: the noise of every token that the filters keep. choose() and
// rank() leave out most of that work and must give the same, bit for bit; they are held to this, in
// result and in time.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {

// The same as choose() and rank() of common/engine/sampling/sampling.h.
TokenId choose_plainly(std::span<const float> logits, const SamplingParams& params,
                       std::uint64_t seed, Position t);
std::vector<Candidate> rank_plainly(std::span<const float> logits, const SamplingParams& params,
                                    std::uint64_t seed, Position t, int n);

}  // namespace outrider

// Log-probabilities of a row: of the softmax of the logits as the model gives them, at temperature
// 1, before settings and filters.
//
// Thread rule: pure functions. The same bits on every CPU. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/sampling/sampling.h"

namespace outrider {

// The most alternatives that may be asked for beside a chosen token, as OpenAI's.
inline constexpr std::uint32_t kMaxTopLogprobs = 20;

struct TokenLogprobs {
  float chosen = 0;                 // of the token that was chosen
  std::vector<Candidate> top = {};  // the likeliest, best first; `score` is the log-probability

  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

// row: [vocab] f32 with an entry above -infinity. Of a token that the row rules out: the least
// finite f32. top: how many of the likeliest; fewer come if the row rules out the rest.
TokenLogprobs logprobs_of(std::span<const float> row, TokenId chosen, std::uint32_t top);

}  // namespace outrider

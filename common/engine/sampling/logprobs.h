// Log-probabilities of a row: of the softmax of the logits as the model gives them, at temperature
// 1, before settings and filters.
//
// Thread rule: pure functions. The same bits on every CPU. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/sampling/sampling.h"

namespace outrider {

// The most alternatives that may be asked for beside a chosen token, as OpenAI's.
inline constexpr std::uint32_t kMaxTopLogprobs = 20;
// The most that may be asked for of a prompt: one for each of its tokens, and one for each of the
// likeliest at its place.
inline constexpr std::uint64_t kMaxPromptLogprobs = std::uint64_t{1} << 17;
inline std::uint64_t prompt_logprobs_of(std::size_t tokens, std::uint32_t top) {
  return std::uint64_t{tokens} * (1 + top);
}

struct TokenLogprobs {
  float chosen = 0;                 // of the token that was chosen
  std::vector<Candidate> top = {};  // the likeliest, best first; `score` is the log-probability

  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

// row: [vocab] f32 with an entry above -infinity. Of a token that the row rules out: the least
// finite f32. top: how many of the likeliest; fewer come if the row rules out the rest.
TokenLogprobs logprobs_of(std::span<const float> row, TokenId chosen, std::uint32_t top);

}  // namespace outrider

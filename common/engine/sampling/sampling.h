// The law of choice (docs/law-of-choice.md): which token stands at a position.
//
//   choose(logits, params, seed, t) = argmax over kept tokens v of
//                                     logits[v] / temperature + gumbel(seed, t, v)
//
// "Kept" is what the filters leave; temperature 0 is plain argmax; ties go to the lower id. The
// result is an exact sample of the filtered softmax, and a pure function of its arguments: draft,
// target, early exits and failover all use it with the same noise, so verification is equality.
//
// Thread rule: pure functions. Arithmetic is the same bits on every CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/sampling/choice_settings.h"

namespace outrider {

// The version of generator, noise and filter order. Both sides of a stream must agree on it.
inline constexpr std::uint32_t kNoiseVersion = 2;
// The same where ChoiceSettings come first. A peer that does not know them refuses it.
inline constexpr std::uint32_t kAdjustedNoiseVersion = 3;
// The same where these have a constraint.
inline constexpr std::uint32_t kConstrainedNoiseVersion = 4;

// Filters apply in this order: top_k, then top_p and min_p on the softmax at `temperature` of what
// top_k left, whose weights count in units of 2^-40. Names and meanings are llama.cpp's.
struct SamplingParams {
  float temperature = 0.0f;  // 0: argmax, the filters have no effect
  std::int32_t top_k = 0;  // keep the k largest logits; 0: all. Ties at the border: lower ids stay
  float top_p = 1.0f;      // keep the smallest set of likeliest tokens with sum >= p; 1: all
  float min_p = 0.0f;      // drop tokens below min_p times the likeliest one's probability

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// The inputs of the law of choice beside logits, position and text.
struct TokenChoice {
  SamplingParams sampling = {};
  std::uint64_t seed = 0;
  ChoiceSettings settings = {};        // what row_adjuster.h makes of a row first
  Position answer_begin = 0;           // of the answer that they count in
  std::vector<TokenId> stop_ids = {};  // that their min_tokens holds back

  friend bool operator==(const TokenChoice&, const TokenChoice&) = default;
};

// Rejects NaN, infinities and values out of range, naming the field.
Status validate(const SamplingParams& params);

// The token at position t. logits: [vocab] f32, at least one entry; NaN counts as -infinity.
// +infinity counts as the largest finite f32. A row with no entry above -infinity gives token 0, so
// the caller refuses such a row before (check_logits() in common/engine/model/row_check.h).
TokenId choose(std::span<const float> logits, const SamplingParams& params, std::uint64_t seed,
               Position t);

// A token with its perturbed score: (logit - row's largest logit) / T + g, or at T = 0 the plain
// logit. Differences of scores within a row are what counts.
struct Candidate {
  TokenId token;
  float score;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// The n best tokens by perturbed score, best first; the first is choose()'s. Fewer than n if the
// filters leave fewer.
std::vector<Candidate> rank(std::span<const float> logits, const SamplingParams& params,
                            std::uint64_t seed, Position t, int n);

// Replaces the logits of some of a row's tokens, which come as scores, by their perturbed scores:
// as if no filter dropped them. They differ from rank()'s by the same amount.
void perturb(std::span<Candidate> candidates, const SamplingParams& params, std::uint64_t seed,
             Position t);

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/choice/plain_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/status.h"
#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/select.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::size_t padded(std::size_t count) {
  return (count + kNoiseGroup - 1) / kNoiseGroup * kNoiseGroup;
}

// Memory of one thread's calls, so that a decoding step allocates nothing.
struct Scratch {
  std::vector<TokenId> tokens;  // kept tokens by id, padded with token 0
  std::vector<float> scores;    // theirs: logit less the row's largest, over T; later plus noise
  std::vector<float> weights;   // e^score before the noise
  std::vector<SelectKey> keys;
};

Scratch& scratch() {
  static thread_local Scratch instance;
  return instance;
}

bool cuts_ranks(const SamplingParams& params, std::size_t vocab) {
  return params.top_k > 0 && static_cast<std::size_t>(params.top_k) < vocab;
}
bool cuts_probabilities(const SamplingParams& params) {
  return params.top_p < 1.0f || params.min_p > 0.0f;
}

void sort_by_place(std::vector<SelectKey>& keys) {
  std::sort(keys.begin(), keys.end(),
            [](SelectKey a, SelectKey b) { return token_of(a) < token_of(b); });
}

// Scores of every token, without noise, padded with -infinity.
void score_all(std::span<const float> logits, float max, float temperature, Scratch& s) {
  s.scores.assign(padded(logits.size()), -kInfinity);
  scale_logits(logits, max, temperature, s.scores);
}

// Tokens and scores of what top_k leaves; returns how many.
std::size_t keep_top_k(std::span<const float> logits, const SamplingParams& params, float max,
                       Scratch& s) {
  if (!cuts_ranks(params, logits.size())) {
    score_all(logits, max, params.temperature, s);
    s.tokens.assign(s.scores.size(), 0);
    std::iota(s.tokens.begin(), s.tokens.begin() + std::ssize(logits), 0);
    return logits.size();
  }
  select_best(logits, static_cast<std::size_t>(params.top_k), s.keys);
  sort_by_place(s.keys);
  const std::size_t count = s.keys.size();
  s.tokens.assign(padded(count), 0);
  s.scores.assign(padded(count), -kInfinity);
  for (std::size_t i = 0; i < count; ++i) {
    s.tokens[i] = token_of(s.keys[i]);
    s.scores[i] = value_of(s.keys[i]);
  }
  const std::span<float> kept = std::span(s.scores).first(count);
  scale_logits(kept, max, params.temperature, kept);
  return count;
}

// Leaves in s.keys the places of the smallest set of likeliest tokens whose weights sum to at
// least top_p of the first `count` weights. Sums are exact, so their order is of no account.
void find_nucleus(std::size_t count, float top_p, Scratch& s) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += weight_units(s.weights[i]);
  const auto wanted =
      static_cast<std::uint64_t>(std::ceil(double{top_p} * static_cast<double>(total)));
  // Most of the probability sits on few tokens: sort few, and more only if they do not suffice.
  for (std::size_t sorted = 64;; sorted *= 16) {
    select_best(std::span(s.scores).first(count), sorted, s.keys);
    std::uint64_t sum = 0;
    std::size_t kept = 0;
    while (kept < s.keys.size() && (kept == 0 || sum < wanted)) {
      sum += weight_units(s.weights[static_cast<std::size_t>(token_of(s.keys[kept]))]);
      ++kept;
    }
    if (sum < wanted && sorted < count) continue;
    s.keys.resize(kept);
    return;
  }
}

// Narrows the first `count` entries by top_p and min_p; returns how many remain.
std::size_t keep_probable(const SamplingParams& params, std::size_t count, Scratch& s) {
  s.weights.resize(s.scores.size());
  exp_row(s.scores, s.weights);
  std::size_t kept = 0;
  const auto move_down = [&s, &params, &kept](std::size_t from) {
    if (s.weights[from] < params.min_p) return;  // the likeliest token's weight is 1
    s.tokens[kept] = s.tokens[from];
    s.scores[kept] = s.scores[from];
    ++kept;
  };
  if (params.top_p < 1.0f) {
    find_nucleus(count, params.top_p, s);
    sort_by_place(s.keys);
    for (const SelectKey key : s.keys) move_down(static_cast<std::size_t>(token_of(key)));
  } else {
    for (std::size_t i = 0; i < count; ++i) move_down(i);
  }
  s.tokens.resize(padded(kept));
  s.scores.resize(padded(kept));
  std::fill(s.scores.begin() + static_cast<std::ptrdiff_t>(kept), s.scores.end(), -kInfinity);
  return kept;
}

// Leaves what the filters keep in `s`, scores perturbed; returns how many.
std::size_t perturb_kept(std::span<const float> logits, const SamplingParams& params,
                         const NoiseKey& key, float max, Scratch& s) {
  std::size_t count = keep_top_k(logits, params, max, s);
  if (cuts_probabilities(params)) count = keep_probable(params, count, s);
  add_noise_at(key, s.tokens, s.scores);
  return count;
}

// Without filters no list of tokens is needed: the row passes through a small buffer.
TokenId choose_unfiltered(std::span<const float> logits, float temperature, const NoiseKey& key,
                          float max) {
  std::array<float, 64 * kNoiseGroup> scores;
  float best = -kInfinity;
  std::size_t token = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += scores.size()) {
    const std::span<const float> part =
        logits.subspan(begin, std::min(scores.size(), logits.size() - begin));
    const std::span<float> out = std::span(scores).first(padded(part.size()));
    std::fill(out.begin(), out.end(), -kInfinity);
    scale_logits(part, max, temperature, out);
    add_noise(key, static_cast<TokenId>(begin), out);
    const float largest = max_logit(out);
    if (!(largest > best)) continue;
    best = largest;
    token = begin + arg_max(out);
  }
  return static_cast<TokenId>(token);
}

}  // namespace

TokenId choose_plainly(std::span<const float> logits, const SamplingParams& params,
                       std::uint64_t seed, Position t) {
  OUTRIDER_CHECK(!logits.empty());
  const float max = max_logit(logits);
  if (max == -kInfinity) return 0;
  if (params.temperature == 0.0f) return static_cast<TokenId>(arg_max(logits));
  const NoiseKey key{seed, t};
  if (!cuts_ranks(params, logits.size()) && !cuts_probabilities(params)) {
    return choose_unfiltered(logits, params.temperature, key, max);
  }
  Scratch& s = scratch();
  const std::size_t count = perturb_kept(logits, params, key, max, s);
  return s.tokens[arg_max(std::span(s.scores).first(count))];
}

std::vector<Candidate> rank_plainly(std::span<const float> logits, const SamplingParams& params,
                                    std::uint64_t seed, Position t, int n) {
  OUTRIDER_CHECK(!logits.empty() && n >= 0);
  const auto wanted = static_cast<std::size_t>(n);
  const float max = max_logit(logits);
  if (max == -kInfinity) return std::vector<Candidate>(std::min<std::size_t>(wanted, 1), {0, max});
  const NoiseKey key{seed, t};
  Scratch& s = scratch();
  const bool greedy = params.temperature == 0.0f;
  const bool filtered =
      !greedy && (cuts_ranks(params, logits.size()) || cuts_probabilities(params));
  std::size_t count = logits.size();
  if (filtered) {
    count = perturb_kept(logits, params, key, max, s);
  } else if (!greedy) {
    score_all(logits, max, params.temperature, s);
    add_noise(key, 0, s.scores);
  }
  select_best(greedy ? logits : std::span<const float>(s.scores).first(count), wanted, s.keys);
  std::vector<Candidate> best;
  best.reserve(s.keys.size());
  for (const SelectKey place : s.keys) {
    const TokenId token = token_of(place);
    best.push_back({filtered ? s.tokens[static_cast<std::size_t>(token)] : token, value_of(place)});
  }
  return best;
}

}  // namespace outrider

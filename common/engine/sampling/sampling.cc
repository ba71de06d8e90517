// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/nucleus.h"
#include "common/engine/sampling/perturbed.h"
#include "common/engine/sampling/select.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxTemperature = 100.0f;

std::size_t padded(std::size_t count) {
  return (count + kNoiseGroup - 1) / kNoiseGroup * kNoiseGroup;
}

// Memory of one thread's calls, so that a decoding step allocates nothing.
struct Scratch {
  std::vector<TokenId> tokens;  // kept tokens by id, padded with token 0
  std::vector<float> scores;    // theirs: logit less the row's largest, over T
  std::vector<float> weights;   // e^score
  std::vector<SelectKey> keys;
  Nucleus nucleus;
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
    const std::span<const float> scores = std::span(s.scores).first(count);
    for (const std::uint32_t place : s.nucleus.find(scores, s.weights, params.top_p)) {
      move_down(place);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) move_down(i);
  }
  s.tokens.resize(padded(kept));
  s.scores.resize(padded(kept));
  std::fill(s.scores.begin() + static_cast<std::ptrdiff_t>(kept), s.scores.end(), -kInfinity);
  return kept;
}

// Leaves in s.keys the places of the `count` best of the tokens that the filters keep, in s.tokens.
void select_kept(std::span<const float> logits, const SamplingParams& params, const NoiseKey& key,
                 std::size_t count, Scratch& s) {
  const float max = max_logit(logits);
  s.keys.clear();
  if (max == -kInfinity) return;
  std::size_t kept = keep_top_k(logits, params, max, s);
  if (cuts_probabilities(params)) kept = keep_probable(params, kept, s);
  // The scores are scaled already; the largest is 0.
  select_perturbed({key, std::span(s.scores).first(kept), 1.0f, s.tokens}, count, s.keys);
}

// The same for any settings above temperature 0. False: every token is kept, and places are tokens.
bool select_places(std::span<const float> logits, const SamplingParams& params, const NoiseKey& key,
                   std::size_t count, Scratch& s) {
  const bool filtered = cuts_ranks(params, logits.size()) || cuts_probabilities(params);
  if (filtered) {
    select_kept(logits, params, key, count, s);
  } else {
    select_perturbed({key, logits, params.temperature}, count, s.keys);
  }
  return filtered;
}

Status check_range(const char* name, float value, float highest) {
  if (std::isfinite(value) && value >= 0.0f && value <= highest) return {};
  return invalid_argument(std::string(name) + " = " + std::to_string(value) +
                          " is out of range. Remedy: use 0 to " + std::to_string(highest));
}

}  // namespace

Status validate(const SamplingParams& params) {
  OUTRIDER_RETURN_IF_ERROR(check_range("temperature", params.temperature, kMaxTemperature));
  OUTRIDER_RETURN_IF_ERROR(check_range("top_p", params.top_p, 1.0f));
  OUTRIDER_RETURN_IF_ERROR(check_range("min_p", params.min_p, 1.0f));
  if (params.top_k >= 0) return {};
  return invalid_argument("top_k = " + std::to_string(params.top_k) +
                          " is negative. Remedy: use 0 to keep every token, or how many to keep");
}

TokenId choose(std::span<const float> logits, const SamplingParams& params, std::uint64_t seed,
               Position t) {
  OUTRIDER_CHECK(!logits.empty());
  if (params.temperature == 0.0f) return static_cast<TokenId>(arg_max(logits));
  Scratch& s = scratch();
  const bool filtered = select_places(logits, params, {seed, t}, 1, s);
  if (s.keys.empty()) return 0;
  const TokenId place = token_of(s.keys[0]);
  return filtered ? s.tokens[static_cast<std::size_t>(place)] : place;
}

std::vector<Candidate> rank(std::span<const float> logits, const SamplingParams& params,
                            std::uint64_t seed, Position t, int n) {
  OUTRIDER_CHECK(!logits.empty() && n >= 0);
  const auto wanted = static_cast<std::size_t>(n);
  Scratch& s = scratch();
  bool filtered = false;
  if (params.temperature == 0.0f) {
    select_best(logits, wanted, s.keys);
  } else {
    filtered = select_places(logits, params, {seed, t}, wanted, s);
  }
  std::vector<Candidate> best;
  best.reserve(s.keys.size());
  for (const SelectKey key : s.keys) {
    const TokenId place = token_of(key);
    best.push_back({filtered ? s.tokens[static_cast<std::size_t>(place)] : place, value_of(key)});
  }
  if (best.empty() && wanted > 0) best.push_back({0, -kInfinity});
  return best;
}

void perturb(std::span<Candidate> candidates, const SamplingParams& params, std::uint64_t seed,
             Position t) {
  if (params.temperature == 0.0f || candidates.empty()) return;
  std::vector<TokenId> places(padded(candidates.size()), 0);
  std::vector<float> scores(places.size(), 0);
  const float max = std::ranges::max(candidates, {}, &Candidate::score).score;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    places[i] = candidates[i].token;
    scores[i] =
        std::isinf(max) ? candidates[i].score : (candidates[i].score - max) / params.temperature;
  }
  add_noise_at({seed, t}, places, scores);
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].score = scores[i];
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/noise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/base/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/sampling/noise.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/sampling/noise-inl.h"

#ifndef OUTRIDER_UNIT_OFFSET  // once, whatever the number of instruction sets
#define OUTRIDER_UNIT_OFFSET
namespace outrider {
// An f64 from here to its double is a multiple of 2^-40, counted by its bits.
constexpr double kUnitOffset = 4096;
}  // namespace outrider
#endif

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

void add_noise(const NoiseKey& key, std::uint32_t first_token, float* scores, std::size_t count) {
  const Floats d;
  const PhiloxKeys keys(key);
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t group = 0; group < count; group += kNoiseGroup) {
    const std::uint32_t first_block = (first_token + static_cast<std::uint32_t>(group)) / 4;
    for (std::size_t lane = 0; lane < 16; lane += lanes) {
      const Block block = random_blocks_from(keys, first_block + static_cast<std::uint32_t>(lane));
      for (std::size_t word = 0; word < 4; ++word) {
        float* at = scores + group + word * 16 + lane;
        hn::StoreU(hn::Add(hn::LoadU(d, at), gumbel(block.words[word])), d, at);
      }
    }
  }
}

// count: a multiple of 16.
void add_noise_at(const NoiseKey& key, const TokenId* tokens, float* scores, std::size_t count) {
  const Floats d;
  const Words dw;
  const PhiloxKeys keys(key);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const WordVector token = hn::BitCast(dw, hn::LoadU(hn::RebindToSigned<Floats>(), tokens + i));
    hn::StoreU(hn::Add(hn::LoadU(d, scores + i), gumbel(random_words_at(keys, token))), d,
               scores + i);
  }
}

// count: a multiple of 16.
float max_logit(const float* logits, std::size_t count) {
  const Floats d;
  FloatVector best = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    best = hn::Max(best, cleaned(hn::LoadU(d, logits + i)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

// count: a multiple of 16.
void scale_logits(const float* logits, float max, float temperature, float* scaled,
                  std::size_t count) {
  const Floats d;
  const FloatVector maximum = hn::Set(d, max);
  const FloatVector divisor = hn::Set(d, temperature);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const FloatVector below = hn::Sub(cleaned(hn::LoadU(d, logits + i)), maximum);
    hn::StoreU(hn::Div(below, divisor), d, scaled + i);
  }
}

// count: a multiple of 16.
void exp_row(const float* x, float* y, std::size_t count) {
  const Floats d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(vector_exp(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

// count: a multiple of 16.
std::uint64_t sum_weight_units(const float* weights, std::size_t count) {
  const hn::CappedTag<double, 8> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto offset = hn::Set(d, kUnitOffset);
  auto sum = hn::Zero(du);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto weight = hn::PromoteTo(d, hn::LoadU(narrow, weights + i));
    const auto units = hn::Sub(hn::BitCast(du, hn::Add(weight, offset)), hn::BitCast(du, offset));
    sum = hn::Add(sum, units);
  }
  return hn::GetLane(hn::SumOfLanes(du, sum));
}

#endif
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

// The vector loops take multiples of 16; these scalar steps, equal bit for bit, take the rest.
std::size_t whole_part(std::size_t count) {
  return count - count % 16;
}

float cleaned(float x) {
  if (std::isnan(x)) return -std::numeric_limits<float>::infinity();
  return std::min(x, std::numeric_limits<float>::max());
}

}  // namespace

void add_noise(const NoiseKey& key, TokenId first_token, std::span<float> scores) {
  OUTRIDER_CHECK(first_token % kNoiseGroup == 0 && scores.size() % kNoiseGroup == 0);
  OUTRIDER_VECTOR_FUNCTION(best_vector_target(), add_noise)
  (key, static_cast<std::uint32_t>(first_token), scores.data(), scores.size());
}

void add_noise_at(const NoiseKey& key, std::span<const TokenId> tokens, std::span<float> scores) {
  OUTRIDER_CHECK(tokens.size() == scores.size() && scores.size() % kNoiseGroup == 0);
  OUTRIDER_VECTOR_FUNCTION(best_vector_target(), add_noise_at)
  (key, tokens.data(), scores.data(), scores.size());
}

void exp_row(std::span<const float> x, std::span<float> y) {
  OUTRIDER_CHECK(x.size() == y.size() && x.size() % kNoiseGroup == 0);
  OUTRIDER_VECTOR_FUNCTION(best_vector_target(), exp_row)(x.data(), y.data(), x.size());
}

std::uint64_t weight_units(float weight) {
  return std::bit_cast<std::uint64_t>(double{weight} + kUnitOffset) -
         std::bit_cast<std::uint64_t>(kUnitOffset);
}

std::uint64_t sum_weight_units(std::span<const float> weights) {
  OUTRIDER_CHECK(weights.size() % kNoiseGroup == 0);
  return OUTRIDER_VECTOR_FUNCTION(best_vector_target(), sum_weight_units)(weights.data(),
                                                                          weights.size());
}

float max_logit(std::span<const float> logits) {
  const std::size_t whole = whole_part(logits.size());
  float best = OUTRIDER_VECTOR_FUNCTION(best_vector_target(), max_logit)(logits.data(), whole);
  for (const float logit : logits.subspan(whole)) best = std::max(best, cleaned(logit));
  return best;
}

void scale_logits(std::span<const float> logits, float max, float temperature,
                  std::span<float> scaled) {
  OUTRIDER_CHECK(scaled.size() >= logits.size());
  const std::size_t whole = whole_part(logits.size());
  OUTRIDER_VECTOR_FUNCTION(best_vector_target(), scale_logits)
  (logits.data(), max, temperature, scaled.data(), whole);
  for (std::size_t i = whole; i < logits.size(); ++i) {
    scaled[i] = (cleaned(logits[i]) - max) / temperature;
  }
}

std::size_t arg_max(std::span<const float> logits) {
  const float max = max_logit(logits);
  if (max == -std::numeric_limits<float>::infinity()) return 0;
  const auto at = std::find_if(logits.begin(), logits.end(), [max](float x) { return x >= max; });
  return static_cast<std::size_t>(at - logits.begin());
}

}  // namespace outrider
#endif

// SPDX-License-Identifier: Apache-2.0
#include "common/sampling/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/vector_targets.h"
#include "common/sampling/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/sampling/noise.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/base/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// At most sixteen lanes, so that a vector of blocks stays within a group.
using Floats = hn::CappedTag<float, 16>;
using Words = hn::RebindToUnsigned<Floats>;
using WordVector = hn::Vec<Words>;
using FloatVector = hn::Vec<Floats>;

struct Block {
  WordVector words[4];
};

// high and low halves of the 64-bit products of x and the multiplier.
HWY_INLINE void multiply_wide(WordVector x, std::uint32_t multiplier, WordVector& high,
                              WordVector& low) {
  const Words d;
  const hn::RepartitionToWide<Words> d64;
  const WordVector m = hn::Set(d, multiplier);
  const auto even = hn::MulEven(x, m);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, x))), m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

// philox() of philox.h, one block a lane.
HWY_INLINE Block random_block(const NoiseKey& key, WordVector block) {
  const Words d;
  const auto position = static_cast<std::uint64_t>(key.position);
  WordVector c0 = block;
  WordVector c1 = hn::Zero(d);
  WordVector c2 = hn::Set(d, static_cast<std::uint32_t>(position));
  WordVector c3 = hn::Set(d, static_cast<std::uint32_t>(position >> 32));
  auto key0 = static_cast<std::uint32_t>(key.seed);
  auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    WordVector high0, low0, high1, low1;
    multiply_wide(c0, kPhiloxMultiplier0, high0, low0);
    multiply_wide(c2, kPhiloxMultiplier1, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1));
    c3 = low0;
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return {{c0, c1, c2, c3}};
}

// -log(-log(1 - w)), w = (x + 1/2) / 2^32.
HWY_INLINE FloatVector gumbel(WordVector x) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const FloatVector one = hn::Set(d, 1.0f);
  // Halves of 16 bits convert exactly; their sum with 1/2 is rounded once.
  const FloatVector high = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<16>(x)));
  const FloatVector low = hn::ConvertTo(d, hn::BitCast(di, hn::And(x, hn::Set(Words(), 0xFFFFu))));
  const FloatVector sum = hn::MulAdd(high, hn::Set(d, 65536.0f), hn::Add(low, hn::Set(d, 0.5f)));
  const FloatVector w = hn::Min(hn::Mul(sum, hn::Set(d, 0x1p-32f)), hn::Set(d, 1.0f - 0x1p-24f));
  // -log(1 - w) by way of u = 1 - w rounded: -log(u) w / (1 - u) mends u's rounding.
  const FloatVector u = hn::Sub(one, w);
  const FloatVector rest = hn::Sub(one, u);
  const FloatVector mended = hn::Mul(hn::Neg(vector_log(d, u)), hn::Div(w, rest));
  const FloatVector exponential = hn::IfThenElse(hn::Eq(rest, hn::Zero(d)), w, mended);
  return hn::Neg(vector_log(d, exponential));
}

void add_noise(const NoiseKey& key, std::uint32_t first_token, float* scores, std::size_t count) {
  const Floats d;
  const Words dw;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t group = 0; group < count; group += kNoiseGroup) {
    const std::uint32_t first_block = (first_token + static_cast<std::uint32_t>(group)) / 4;
    for (std::size_t lane = 0; lane < 16; lane += lanes) {
      const Block block =
          random_block(key, hn::Iota(dw, first_block + static_cast<std::uint32_t>(lane)));
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
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const WordVector token = hn::BitCast(dw, hn::LoadU(hn::RebindToSigned<Floats>(), tokens + i));
    const WordVector in_group = hn::ShiftLeft<4>(hn::ShiftRight<6>(token));
    const Block block = random_block(key, hn::Or(in_group, hn::And(token, hn::Set(dw, 15u))));
    const WordVector word = hn::And(hn::ShiftRight<4>(token), hn::Set(dw, 3u));
    WordVector bits = block.words[0];
    for (std::uint32_t w = 1; w < 4; ++w) {
      bits = hn::IfThenElse(hn::Eq(word, hn::Set(dw, w)), block.words[w], bits);
    }
    hn::StoreU(hn::Add(hn::LoadU(d, scores + i), gumbel(bits)), d, scores + i);
  }
}

// NaN to -infinity, +infinity to the largest finite number.
HWY_INLINE FloatVector cleaned(FloatVector x) {
  const Floats d;
  const FloatVector bounded =
      hn::IfThenElse(hn::Lt(x, hn::Set(d, kLargest)), x, hn::Set(d, kLargest));
  return hn::IfThenElse(hn::IsNaN(x), hn::Set(d, -kInfinity), bounded);
}

// count: a multiple of 16.
float max_logit(const float* logits, std::size_t count) {
  const Floats d;
  FloatVector best = hn::Set(d, -kInfinity);
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

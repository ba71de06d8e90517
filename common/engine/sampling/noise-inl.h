// The noise of noise.h on vectors: random words, the noise of a word, a bound on it.
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set (common/base/vector_targets.h), so no #pragma once.
#if defined(OUTRIDER_NOISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OUTRIDER_NOISE_INL_H_
#undef OUTRIDER_NOISE_INL_H_
#else
#define OUTRIDER_NOISE_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "common/base/vector_math-inl.h"
#include "common/base/vector_targets.h"
#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

// At most sixteen lanes, so that a vector of blocks stays within a group.
using Floats = hn::CappedTag<float, 16>;
using Words = hn::RebindToUnsigned<Floats>;
using WordVector = hn::Vec<Words>;
using FloatVector = hn::Vec<Floats>;

struct Block {
  WordVector words[4];
};

// The keys of philox.h's rounds: the same for all blocks of a position.
struct PhiloxKeys {
  explicit PhiloxKeys(const NoiseKey& noise)
      : position(static_cast<std::uint64_t>(noise.position)) {
    auto key0 = static_cast<std::uint32_t>(noise.seed);
    auto key1 = static_cast<std::uint32_t>(noise.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      rounds[round][0] = key0;
      rounds[round][1] = key1;
      key0 += kPhiloxKeyStep0;
      key1 += kPhiloxKeyStep1;
    }
  }

  std::uint64_t position;
  std::uint32_t rounds[kPhiloxRounds][2];
  // Iota() would write it anew for each use.
  HWY_ALIGN std::uint32_t places[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

// philox() of philox.h for the blocks in the even lanes; what the odd lanes hold is of no meaning.
// A product of 64 bits takes the place of two lanes, so its halves need no other place.
HWY_INLINE Block even_blocks(const PhiloxKeys& keys, WordVector block) {
  const Words d;
  const hn::RepartitionToWide<Words> d64;
  const WordVector multiplier0 = hn::Set(d, kPhiloxMultiplier0);
  const WordVector multiplier1 = hn::Set(d, kPhiloxMultiplier1);
  WordVector c0 = block;
  WordVector c1 = hn::Zero(d);
  WordVector c2 = hn::Set(d, static_cast<std::uint32_t>(keys.position));
  WordVector c3 = hn::Set(d, static_cast<std::uint32_t>(keys.position >> 32));
  for (const auto& key : keys.rounds) {
    const auto product0 = hn::MulEven(c0, multiplier0);
    const auto product1 = hn::MulEven(c2, multiplier1);
    const WordVector high0 = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, product0)));
    const WordVector high1 = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, product1)));
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key[0]));
    c1 = hn::BitCast(d, product1);
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key[1]));
    c3 = hn::BitCast(d, product0);
  }
  return {{c0, c1, c2, c3}};
}

// philox() of philox.h, one block a lane.
HWY_INLINE Block random_block(const PhiloxKeys& keys, WordVector block) {
  const Words d;
  const hn::RepartitionToWide<Words> d64;
  Block words = even_blocks(keys, block);
  const Block odd = even_blocks(keys, hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, block))));
  for (int word = 0; word < 4; ++word) {
    const auto moved = hn::ShiftLeft<32>(hn::BitCast(d64, odd.words[word]));
    words.words[word] = hn::OddEven(hn::BitCast(d, moved), words.words[word]);
  }
  return words;
}

// The words of sixteen neighbouring blocks from `first` on, or as many as there are lanes.
HWY_INLINE Block random_blocks_from(const PhiloxKeys& keys, std::uint32_t first) {
  const Words d;
  return random_block(keys, hn::Add(hn::Load(d, keys.places), hn::Set(d, first)));
}

// The noise's random words of these tokens.
HWY_INLINE WordVector random_words_at(const PhiloxKeys& keys, WordVector token) {
  const Words dw;
  const WordVector in_group = hn::ShiftLeft<4>(hn::ShiftRight<6>(token));
  const Block block = random_block(keys, hn::Or(in_group, hn::And(token, hn::Set(dw, 15u))));
  const WordVector word = hn::And(hn::ShiftRight<4>(token), hn::Set(dw, 3u));
  WordVector bits = block.words[0];
  for (std::uint32_t w = 1; w < 4; ++w) {
    bits = hn::IfThenElse(hn::Eq(word, hn::Set(dw, w)), block.words[w], bits);
  }
  return bits;
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

// At least gumbel(x), and never less for a smaller x; costs a twentieth of it.
//
// -log(1 - w) >= w, so g <= -log(w) <= (31 - log2(h)) ln 2 with h = floor(x / 2) <= 2^31 w. The
// bits of a float y as a whole number, over 2^23 and less 127, are log2(y) with its curve replaced
// by chords, which lie below it. What is rounded here and in gumbel() stays under the slack of
// 2^-6: tests try words at both ends and millions between, `outrider-bench choice --bound` all
// 2^32.
HWY_INLINE FloatVector noise_bound(WordVector x) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const FloatVector half = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<1>(x)));
  const FloatVector log2 = hn::ConvertTo(d, hn::BitCast(di, half));
  constexpr float kLn2 = 0x1.62e43p-1f;
  return hn::NegMulAdd(log2, hn::Set(d, kLn2 * 0x1p-23f), hn::Set(d, 158 * kLn2 + 0x1p-6f));
}

// NaN to -infinity, +infinity to the largest finite number.
HWY_INLINE FloatVector cleaned(FloatVector x) {
  const Floats d;
  const FloatVector largest = hn::Set(d, std::numeric_limits<float>::max());
  const FloatVector bounded = hn::IfThenElse(hn::Lt(x, largest), x, largest);
  const FloatVector lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::IsNaN(x), lowest, bounded);
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/engine/sampling/philox.h"
#include "tests/unit/common/engine/sampling/float_values.h"

namespace outrider {
namespace {

std::vector<float> noise_of(const NoiseKey& key, TokenId first, std::size_t count) {
  std::vector<float> noise(count, 0.0f);
  add_noise(key, first, noise);
  return noise;
}

// The noise as noise.h states it, from the scalar generator and the C library.
struct StatedNoise {
  double value;
  double tolerance;
};
StatedNoise stated_noise(const NoiseKey& key, TokenId token) {
  const auto v = static_cast<std::uint32_t>(token);
  const auto t = static_cast<std::uint64_t>(key.position);
  const PhiloxCounter bits = philox(
      {v / 64 * 16 + v % 16, 0, static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(t >> 32)},
      {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  const double w = (bits[v / 16 % 4] + 0.5) * 0x1p-32;
  const double exponential = -std::log1p(-w);
  const double value = -std::log(exponential);
  // f32 arithmetic, and w in f32, which is coarse where g is small and loses anyway.
  return {value, 1e-6 * std::max(1.0, std::abs(value)) + 0x1p-24 / ((1.0 - w) * exponential)};
}

// FNV-1a over the bits of the numbers.
std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  }
  return hash;
}

TEST(Noise, IsTheGumbelNoiseThatTheHeaderStates) {
  const NoiseKey keys[] = {{0, 0}, {1, 77}, {0xfedcba9876543210, 0x123456789abcdef}};
  for (const NoiseKey& key : keys) {
    const std::vector<float> noise = noise_of(key, 64'000, std::size_t{64} * 1024);
    for (std::size_t i = 0; i < noise.size(); ++i) {
      const StatedNoise stated = stated_noise(key, 64'000 + static_cast<TokenId>(i));
      ASSERT_NEAR(noise[i], stated.value, stated.tolerance) << i;
    }
  }
}

TEST(Noise, OfATokenIsTheSameFoundAloneOrInARow) {
  const NoiseKey key{42, 1000};
  const std::vector<float> row = noise_of(key, 0, 4096);
  std::vector<TokenId> tokens(4096);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(i * 1021 % 4096);  // every token once, shuffled
  }
  std::vector<float> scattered(tokens.size(), 0.0f);
  add_noise_at(key, tokens, scattered);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(scattered[i], row[static_cast<std::size_t>(tokens[i])]) << i;
  }
}

// Any CPU must reproduce these.
TEST(Noise, HasTheSameBitsOnEveryCpu) {
  const std::vector<float> noise = noise_of({2026, 5}, 0, 64);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(noise[0]), 1065719344u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(noise[17]), 3201778243u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(noise[63]), 1027730895u);
  EXPECT_EQ(hash_of(noise_of({2026, 5}, 0, 1 << 17)), 12828055142962292875u);
  EXPECT_EQ(hash_of(noise_of({1, std::int64_t{1} << 40}, 0, 1 << 17)), 9967134488947618708u);
}

TEST(Noise, ChangesWithSeedPositionAndToken) {
  const std::vector<float> base = noise_of({1, 1}, 0, 64);
  EXPECT_NE(base, noise_of({2, 1}, 0, 64));
  EXPECT_NE(base, noise_of({std::uint64_t{1} << 32 | 1, 1}, 0, 64));
  EXPECT_NE(base, noise_of({1, 2}, 0, 64));
  EXPECT_NE(base, noise_of({1, (std::int64_t{1} << 32) + 1}, 0, 64));
  EXPECT_NE(base, noise_of({1, 1}, 64, 64));
}

TEST(Noise, IsFiniteForEveryWord) {
  // Among 2^24 words are some near both ends of (0, 1).
  float least = kInfinity;
  float most = -kInfinity;
  for (Position t = 0; t < 256; ++t) {
    for (const float g : noise_of({9, t}, 0, 1 << 16)) {
      least = std::min(least, g);
      most = std::max(most, g);
    }
  }
  EXPECT_GE(least, -2.83f);
  EXPECT_LE(least, -2.7f);
  EXPECT_GE(most, 14.0f);
  EXPECT_LE(most, 23.0f);
}

TEST(WeightUnits, AreRoundedAndTheirSumsExact) {
  EXPECT_EQ(weight_units(0.0f), 0u);
  EXPECT_EQ(weight_units(1.0f), std::uint64_t{1} << 40);
  EXPECT_EQ(weight_units(0x1.8p-40f), 2u);  // halves go to the even
  EXPECT_EQ(weight_units(0x1p-41f), 0u);
  EXPECT_EQ(weight_units(0x1.000002p-41f), 1u);
  std::vector<float> weights(64 * 1024);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = std::exp(-static_cast<float>(i * 7919 % weights.size()) * 0x1p-11f);
    sum += weight_units(weights[i]);
  }
  EXPECT_EQ(sum_weight_units(weights), sum);
  std::reverse(weights.begin(), weights.end());
  EXPECT_EQ(sum_weight_units(weights), sum);
}

TEST(RowLoops, FindTheMaximumWhateverTheLength) {
  for (std::size_t length = 1; length < 100; ++length) {
    for (std::size_t at = 0; at < length; at += 7) {
      std::vector<float> row(length, -5.0f);
      row[at] = -1.0f;
      EXPECT_EQ(max_logit(row), -1.0f);
      EXPECT_EQ(arg_max(row), at);
    }
  }
}

TEST(RowLoops, ReadNaNAsMinusInfinityAndBoundInfinity) {
  EXPECT_EQ(max_logit({}), -kInfinity);
  EXPECT_EQ(max_logit(std::vector<float>{kNaN, -3.0f, -kNaN}), -3.0f);
  EXPECT_EQ(arg_max(std::vector<float>{kNaN, -3.0f, kNaN}), 1u);
  EXPECT_EQ(arg_max(std::vector<float>(20, kNaN)), 0u);
  EXPECT_EQ(max_logit(std::vector<float>{kInfinity, 1.0f}), std::numeric_limits<float>::max());
  std::vector<float> row(17, 1.0f);
  row[2] = kNaN;
  row[16] = kNaN;
  std::vector<float> scaled(17);
  scale_logits(row, 1.0f, 0.5f, scaled);
  EXPECT_EQ(scaled[0], 0.0f);
  EXPECT_EQ(scaled[2], -kInfinity);
  EXPECT_EQ(scaled[16], -kInfinity);
}

TEST(RowLoops, ScaleTheRestOfARowAsTheyScaleItsStart) {
  std::vector<float> row(47);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = std::sin(static_cast<float>(i % 16)) * 9;
  std::vector<float> scaled(row.size());
  scale_logits(row, max_logit(row), 0.3f, scaled);
  for (std::size_t i = 32; i < row.size(); ++i) EXPECT_EQ(scaled[i], scaled[i - 32]);
}

}  // namespace
}  // namespace outrider

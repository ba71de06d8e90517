// Seeded random numbers. They are the same on every machine; the standard's distributions are not.
//
// Thread rule: one thread; mixed(), scrambled() and unit() are pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

// For links and simulations, which draw long sequences: std::mt19937_64.
class SeededRandom final {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}

  // 0 <= result < 1.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }
  // Mean 0, standard deviation 1.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  // 0 <= result < n; n > 0.
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  // low <= result <= high.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  Duration between(Duration low, Duration high) {
    return Duration{between(low.count(), high.count())};
  }
  // Moves `count` of the items to the front, drawn evenly and in the order drawn. With all items it
  // is a shuffle. count <= items.size().
  template <typename T>
  void draw_first(std::vector<T>& items, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto left = static_cast<double>(items.size() - i);
      std::swap(items[i], items[i + static_cast<std::size_t>(uniform() * left)]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

// SplitMix64 (Steele et al. 2014): its finalizer spreads a number over all 64 bits.
inline std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline constexpr std::uint64_t kGoldenStep = 0x9e3779b97f4a7c15u;
// One step of SplitMix64: if two numbers differ in any bit, all bits of the results may differ.
inline std::uint64_t mixed(std::uint64_t x) {
  return scrambled(x + kGoldenStep);
}
// 0 <= result < 1, from the upper bits.
inline double unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// The sequence of SplitMix64, for short sequences.
class SplitMix final {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t drawn = mixed(state_) % n;
    state_ += kGoldenStep;
    return drawn;
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace outrider

// A small seeded generator whose sequence is the same on every machine and standard library.
// Thread rule: a value; one thread at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace outrider {

// SplitMix64 (Steele, Lea, Flood 2014).
class SplitMix64 final {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // 0 <= result < bound; bound >= 1. The bias is below bound / 2^32.
  int below(int bound) {
    return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(bound)) >> 32);
  }

  // 0 <= result < 1.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // True with the given chance.
  bool chance(double probability) { return uniform() < probability; }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<int>(i)))]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace outrider

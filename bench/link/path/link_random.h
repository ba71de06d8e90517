// Seeded chance for an emulated link: the same seed decides the same fates.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

namespace outrider {

// std::mt19937_64 is the same everywhere; the standard's distributions are not.
class LinkRandom final {
 public:
  explicit LinkRandom(std::uint64_t seed) : engine_(seed) {}

  // 0 <= result < 1.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }
  // Mean 0, standard deviation 1.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  // Brings `count` of them to the front, drawn evenly and in the order drawn; the whole is a
  // shuffle. count <= items.size().
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

}  // namespace outrider

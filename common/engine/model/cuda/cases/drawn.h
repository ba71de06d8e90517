// Numbers for the kernels' checks, drawn by a seed: the same on every machine.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/engine/model/format/dtype.h"

namespace outrider::gpu {

class Drawn final {
 public:
  explicit Drawn(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n));
  }
  // In [-1, 1).
  float plain() {
    return static_cast<float>(static_cast<std::int32_t>(bits() >> 40) - (1 << 23)) * 0x1p-23f;
  }
  // One in eight is a zero of either sign, tiny or large.
  float odd(float large) {
    const std::uint64_t kind = bits() % 64;
    const float value = plain();
    if (kind == 0) return 0.0f;
    if (kind == 1) return -0.0f;
    if (kind < 4) return value * 0x1p-140f;  // subnormal
    if (kind < 6) return value * 1e-30f;
    if (kind < 8) return value * large;
    return value;
  }
  std::vector<float> odd_values(std::int64_t count, float large) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = odd(large);
    return values;
  }

 private:
  std::uint64_t state_;
};

}  // namespace outrider::gpu

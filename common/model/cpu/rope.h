// Rotary position embedding as transformers computes it, with the same bits on every CPU.
//
// A head's elements i and i + head_dim/2 are a pair, turned by angle position * frequency[i]. The
// angle is rounded to f32, as transformers does: at position 100 000 that rounding moves it by
// thousandths, so it belongs to the model's definition. Sine and cosine are then exact to f32.
//
// Thread rule: constant after construction. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/types.h"

namespace outrider {

class Rope final {
 public:
  // frequencies: radians per position, [head_dim / 2] (rope_frequencies() of config.h).
  explicit Rope(std::vector<float> frequencies) : frequencies_(std::move(frequencies)) {}

  // cos and sin: [head_dim / 2]. 0 <= position, and every angle is at most 2^20.
  void fill(Position position, float* cos, float* sin) const;

 private:
  std::vector<float> frequencies_;
};

// to = from turned; both [2 * half], and may be the same.
void rotate(const float* from, const float* cos, const float* sin, std::int64_t half, float* to);

}  // namespace outrider

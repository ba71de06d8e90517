// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/rope.h"

#include "common/base/portable_math.h"

namespace outrider {
void Rope::fill(Position position, float* cos, float* sin) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies_[i];
    const SinCos pair = portable_sin_cos(angle);
    cos[i] = static_cast<float>(pair.cos);
    sin[i] = static_cast<float>(pair.sin);
  }
}

void rotate(const float* from, const float* cos, const float* sin, std::int64_t half, float* to) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float first = from[i];
    const float second = from[i + half];
    to[i] = first * cos[i] - second * sin[i];
    to[i + half] = second * cos[i] + first * sin[i];
  }
}

}  // namespace outrider

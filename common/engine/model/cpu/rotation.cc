// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/rotation.h"

#include <cstddef>

#include "common/base/portable_math.h"

namespace outrider {

void fill_rotation(std::span<const float> frequencies, double factor, Position position, float* cos,
                   float* sin) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies[i];
    const SinCos pair = portable_sin_cos(angle);
    cos[i] = static_cast<float>(pair.cos * factor);
    sin[i] = static_cast<float>(pair.sin * factor);
  }
}

}  // namespace outrider

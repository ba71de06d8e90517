// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"

#include <bit>
#include <random>

namespace outrider {

std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<std::int32_t>(generator() >> 16) - 32768) / 32768.0f;
  }
  return values;
}

std::uint64_t hash(std::uint64_t h, const std::vector<float>& values) {
  for (const float value : values) {
    h = (h ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  }
  return h;
}

}  // namespace outrider

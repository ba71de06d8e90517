// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/row_digest.h"

#include <bit>
#include <cstddef>

namespace outrider {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000;
constexpr std::uint32_t kOneNan = 0x7fc00000;
constexpr std::uint32_t kNoSign = 0x7fffffff;

// A bijection whose every output bit depends on every input bit (the finaliser of SplitMix64).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t row_digest(std::span<const float> row) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    auto bits = std::bit_cast<std::uint32_t>(row[i]);
    if ((bits & kNoSign) > kInfinityBits) bits = kOneNan;
    sum += mix((std::uint64_t{i} << 32) | bits);
  }
  return sum;
}

}  // namespace outrider

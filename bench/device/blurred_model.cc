// SPDX-License-Identifier: Apache-2.0
#include "bench/device/blurred_model.h"

#include <cstdint>

namespace outrider {
namespace {

// Spreads a number over 64 bits (the finalizer of SplitMix64, Steele et al. 2014).
std::uint64_t spread(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

// Nearly normal, of mean 0 and deviation 1: the sum of four uniform parts of 16 bits.
float noise_at(Position position, std::size_t token) {
  const std::uint64_t bits =
      spread(static_cast<std::uint64_t>(position) * 0x9e3779b97f4a7c15u + token + 1);
  const auto part = [bits](int at) { return static_cast<float>((bits >> (16 * at)) & 0xffff); };
  const float sum = (part(0) + part(1) + part(2) + part(3)) / 65536.0f;
  return (sum - 2.0f) * 1.7320508f;
}

}  // namespace

void BlurredModel::alter(Position position, std::span<float> logits) {
  for (std::size_t token = 0; token < logits.size(); ++token) {
    logits[token] += deviation_ * noise_at(position, token);
  }
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/blurred_model.h"

#include <cstdint>

namespace outrider {

Status AlteredModel::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(model_->forward(rows, out));
  const auto vocabulary = static_cast<std::size_t>(out.vocab_size);
  std::span<float> left = out.logits;
  for (const Row& row : rows) {
    if (!row.wants_logits) continue;
    alter(row.cache->slots().position(row.slot), left.first(vocabulary));
    left = left.subspan(vocabulary);
  }
  return {};
}

namespace {

// Nearly normal, of mean 0 and deviation 1: the sum of four uniform parts of 16 bits.
float noise_at(Position position, std::size_t token) {
  const std::uint64_t bits =
      scrambled(static_cast<std::uint64_t>(position) * kGoldenStep + token + 1);
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

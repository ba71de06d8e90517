// SPDX-License-Identifier: Apache-2.0
#include "bench/device/forgetful_model.h"

#include <algorithm>

namespace outrider {

void ForgetfulModel::alter(Position position, std::span<float> logits) {
  if (position < known_.load(std::memory_order_relaxed)) return;
  std::ranges::rotate(logits, logits.begin() + static_cast<std::ptrdiff_t>(logits.size() / 2));
}

}  // namespace outrider

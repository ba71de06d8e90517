// SPDX-License-Identifier: Apache-2.0
#include "bench/device/forgetful_model.h"

#include <algorithm>

namespace outrider {

Status ForgetfulModel::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(model_->forward(rows, out));
  const Position known = known_.load(std::memory_order_relaxed);
  auto logits = out.logits.begin();
  for (const Row& row : rows) {
    if (!row.wants_logits) continue;
    const auto next = logits + out.vocab_size;
    if (row.cache->slots().position(row.slot) >= known) {
      std::rotate(logits, logits + out.vocab_size / 2, next);
    }
    logits = next;
  }
  return {};
}

}  // namespace outrider

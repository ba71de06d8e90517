// SPDX-License-Identifier: Apache-2.0
#include "bench/device/changing_model.h"

#include <algorithm>

namespace outrider {

Status ChangingModel::forward(std::span<const Row> rows, PassOutput& out) {
  const double ms = pace_.ms(static_cast<std::int64_t>(rows.size())) * slowdown_.load();
  const TimePoint end = clock_.now() + from_ms(ms);
  OUTRIDER_RETURN_IF_ERROR(model_->forward(rows, out));
  const Position known = known_.load();
  auto logits = out.logits.begin();
  for (const Row& row : rows) {
    if (!row.wants_logits) continue;
    const auto next = logits + out.vocab_size;
    if (row.cache->slots().position(row.slot) >= known) {
      std::rotate(logits, logits + out.vocab_size / 2, next);
    }
    logits = next;
  }
  clock_.sleep_until(end);
  return {};
}

}  // namespace outrider

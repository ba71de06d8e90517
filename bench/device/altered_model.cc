// SPDX-License-Identifier: Apache-2.0
#include "bench/device/altered_model.h"

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

}  // namespace outrider

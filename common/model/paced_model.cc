// SPDX-License-Identifier: Apache-2.0
#include "common/model/paced_model.h"

#include <utility>

namespace outrider {

PacedModel::PacedModel(std::unique_ptr<Model> model, PaceCurve pace, Clock& clock)
    : model_(std::move(model)), pace_(std::move(pace)), clock_(clock), info_(model_->info()) {
  info_.name += " (emulated pace: " + pace_.to_string() + " ms a pass)";
}

Status PacedModel::forward(std::span<const Row> rows, PassOutput& out) {
  const double ms = pace_.ms(static_cast<std::int64_t>(rows.size()));
  const TimePoint end = clock_.now() + from_ms(ms);
  OUTRIDER_RETURN_IF_ERROR(model_->forward(rows, out));
  if (clock_.now() > end) overruns_.fetch_add(1, std::memory_order_relaxed);
  clock_.sleep_until(end);
  return {};
}

}  // namespace outrider

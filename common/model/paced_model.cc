// SPDX-License-Identifier: Apache-2.0
#include "common/model/paced_model.h"

#include <sstream>
#include <utility>

namespace outrider {
namespace {

// An hour a pass is no device; beyond it from_ms() could overflow.
constexpr double kMaxMs = 3.6e6;

bool is_sound(double ms) {
  return ms >= 0 && ms <= kMaxMs;
}

}  // namespace

PacedModel::PacedModel(std::unique_ptr<Model> model, Pace pace, Clock& clock)
    : model_(std::move(model)), pace_(pace), clock_(clock), info_(model_->info()) {
  std::ostringstream label;
  label << " (emulated pace: " << pace_.base_ms << " ms + " << pace_.per_row_ms << " ms a row)";
  info_.name += label.str();
}

Status PacedModel::forward(std::span<const Row> rows, PassOutput& out) {
  const double ms = pace_.base_ms + pace_.per_row_ms * static_cast<double>(rows.size());
  const TimePoint end = clock_.now() + from_ms(ms);
  OUTRIDER_RETURN_IF_ERROR(model_->forward(rows, out));
  if (clock_.now() > end) overruns_.fetch_add(1, std::memory_order_relaxed);
  clock_.sleep_until(end);
  return {};
}

Result<std::unique_ptr<PacedModel>> make_paced_model(std::unique_ptr<Model> model, Pace pace,
                                                     Clock& clock) {
  if (!is_sound(pace.base_ms) || !is_sound(pace.per_row_ms)) {
    std::ostringstream message;
    message << "pace of " << pace.base_ms << " ms + " << pace.per_row_ms
            << " ms a row: each must be from 0 to " << kMaxMs;
    return invalid_argument(message.str());
  }
  return std::make_unique<PacedModel>(std::move(model), pace, clock);
}

}  // namespace outrider

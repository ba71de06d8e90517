// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/emulated/paced_model.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// A layer of the CPU engine is about ten loops of unequal length.
constexpr std::int32_t kPartsOfLayer = 8;

// Delays each layer until its share of the pass is over.
class PacedTap final : public LayerTap {
 public:
  PacedTap(LayerTap& tap, Clock& clock, Duration pass, std::int32_t num_layers)
      : tap_(tap), clock_(clock), start_(clock.now()), pass_(pass), num_layers_(num_layers) {}

  bool wants(std::int32_t layer) const override { return tap_.wants(layer); }
  void on_layer(const HiddenRows& rows) override {
    clock_.sleep_until(start_ + pass_ * rows.layer / num_layers_);
    tap_.on_layer(rows);
  }

 private:
  LayerTap& tap_;
  Clock& clock_;
  const TimePoint start_;
  const Duration pass_;
  const std::int32_t num_layers_;
};

}  // namespace

PacedModel::PacedModel(std::unique_ptr<Model> model, PaceCurve pace, Clock& clock, double exit_cost)
    : model_(std::move(model)),
      pace_(std::move(pace)),
      clock_(clock),
      exit_cost_(exit_cost),
      info_(model_->info()) {
  info_.name += " (emulated pace: " + pace_.to_string() + " ms a pass)";
}

Status PacedModel::forward(std::span<const Row> rows, PassOutput& out) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const double exits = out.tap != nullptr ? exit_cost_ : 1;
  const Duration pass =
      from_ms(pace_.ms(count) * exits * slowdown_.load(std::memory_order_relaxed));
  const TimePoint begin = clock_.now();
  OUTRIDER_RETURN_IF_ERROR(tapped_forward(rows, out, pass));
  if (pace_.covers(count)) {
    passes_.fetch_add(1, std::memory_order_relaxed);
    if (clock_.now() > begin + pass) overruns_.fetch_add(1, std::memory_order_relaxed);
  }
  return rest(begin, pass, out);
}

// Sleeps in parts, because a pass of the CPU engine can be abandoned before each of its loops.
Status PacedModel::rest(TimePoint begin, Duration pass, const PassOutput& out) {
  const std::int32_t parts =
      out.abandoned.empty() ? 1 : kPartsOfLayer * std::max(info_.num_layers, 1);
  for (std::int32_t part = 1; part <= parts; ++part) {
    if (out.is_abandoned()) return cancelled("the pass was abandoned");
    clock_.sleep_until(begin + pass * part / parts);
  }
  return {};
}

Status PacedModel::tapped_forward(std::span<const Row> rows, PassOutput& out, Duration pass) {
  if (out.tap == nullptr) return model_->forward(rows, out);
  PacedTap paced(*out.tap, clock_, pass, info_.num_layers);
  LayerTap* const tap = std::exchange(out.tap, &paced);
  Status status = model_->forward(rows, out);
  out.tap = tap;
  return status;
}

std::unique_ptr<Model> CurvePacer::pace(std::unique_ptr<Model> model, Clock& clock) {
  auto paced = std::make_unique<PacedModel>(std::move(model), curve_, clock, exit_cost_);
  paced_ = paced.get();
  return paced;
}

}  // namespace outrider

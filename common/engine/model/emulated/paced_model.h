// Real tokens at another device's pace: stretches each pass of a model to a time that depends on
// its number of rows. Labelled: info().name contains "emulated".
//
//   PacedModel paced(std::move(model), *PaceCurve::parse("1:18,5:26"), clock);
//
// A pass with a tap has exits: it takes exit_cost times as long. A tap sees layer l of L no earlier
// than l/L of the stretched pass. An abandoned pass ends at the next eighth of a layer.
//
// A pass that is slower than the pace is not shortened: counts() reports those, among the passes
// whose rows the pace covers.
//
// Thread rule: as model.h, set_slowdown() from any thread; the clock must outlive the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/engine/model/emulated/pace.h"
#include "common/engine/model/model.h"
#include "common/engine/model/model_pacer.h"

namespace outrider {

class PacedModel final : public Model {
 public:
  PacedModel(std::unique_ptr<Model> model, PaceCurve pace, Clock& clock, double exit_cost = 1);

  // From now on multiplies the time of each pass: a throttled device.
  void set_slowdown(double factor) { slowdown_.store(factor, std::memory_order_relaxed); }

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_->new_pages(count);
  }
  // A failed pass is not stretched.
  Status forward(std::span<const Row> rows, PassOutput& out) override;
  Status check_unchanged() const override { return model_->check_unchanged(); }

  // Any thread.
  PaceCounts counts() const {
    return {passes_.load(std::memory_order_relaxed), overruns_.load(std::memory_order_relaxed)};
  }

 private:
  Status tapped_forward(std::span<const Row> rows, PassOutput& out, Duration pass);
  Status rest(TimePoint begin, Duration pass, const PassOutput& out);

  const std::unique_ptr<Model> model_;
  const PaceCurve pace_;
  Clock& clock_;
  const double exit_cost_;
  ModelInfo info_;
  std::atomic<double> slowdown_{1};
  std::atomic<std::int64_t> passes_{0};
  std::atomic<std::int64_t> overruns_{0};
};

// Paces a model by a curve.
class CurvePacer final : public ModelPacer {
 public:
  explicit CurvePacer(PaceCurve curve, double exit_cost = 1)
      : curve_(std::move(curve)), exit_cost_(exit_cost) {}

  std::unique_ptr<Model> pace(std::unique_ptr<Model> model, Clock& clock) override;
  PaceCounts counts() const override { return paced_ != nullptr ? paced_->counts() : PaceCounts{}; }
  std::string about() const override { return curve_.to_string(); }

 private:
  const PaceCurve curve_;
  const double exit_cost_;
  const PacedModel* paced_ = nullptr;
};

}  // namespace outrider

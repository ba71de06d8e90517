// A draft on an emulated device that changes while it works: each pass takes its pace's time times
// a factor, and from some position on its guesses are worthless.
//
// Thread rule: as model.h, except that the two setters may be called from anywhere. The clock must
// outlive the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <limits>
#include <memory>

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/model/pace.h"

namespace outrider {

class ChangingModel final : public Model {
 public:
  ChangingModel(std::unique_ptr<Model> model, PaceCurve pace, Clock& clock)
      : model_(std::move(model)), pace_(std::move(pace)), clock_(clock) {}

  void set_slowdown(double factor) { slowdown_.store(factor); }
  // Rows at this position and later give the logits of other tokens.
  void forget_from(Position position) { known_.store(position); }

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_->new_cache(capacity);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  const std::unique_ptr<Model> model_;
  const PaceCurve pace_;
  Clock& clock_;
  std::atomic<double> slowdown_{1};
  std::atomic<Position> known_{std::numeric_limits<Position>::max()};
};

}  // namespace outrider

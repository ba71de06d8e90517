// Real tokens at another device's pace: stretches each pass of a model to a time that depends on
// its number of rows. Labelled: info().name says "emulated".
//
//   auto paced = make_paced_model(std::move(model), {.base_ms = 18, .per_row_ms = 0.2}, clock);
//
// Thread rule: as model.h; the clock must outlive the model. A pass that takes longer by itself is
// not shortened: overruns() counts those. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "common/model/model.h"

namespace outrider {

// A pass of n rows takes base_ms + n * per_row_ms. Both >= 0.
struct Pace {
  double base_ms = 0;
  double per_row_ms = 0;
};

class PacedModel final : public Model {
 public:
  PacedModel(std::unique_ptr<Model> model, Pace pace, Clock& clock);

  const ModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_->new_cache(capacity);
  }
  // A failed pass is not stretched.
  Status forward(std::span<const Row> rows, PassOutput& out) override;

  // Passes that were slower than the pace, so that their emulation does not hold. Any thread.
  std::int64_t overruns() const { return overruns_.load(std::memory_order_relaxed); }

 private:
  const std::unique_ptr<Model> model_;
  const Pace pace_;
  Clock& clock_;
  ModelInfo info_;
  std::atomic<std::int64_t> overruns_{0};
};

// kInvalidArgument unless both figures are finite and not negative.
Result<std::unique_ptr<PacedModel>> make_paced_model(std::unique_ptr<Model> model, Pace pace,
                                                     Clock& clock);

}  // namespace outrider

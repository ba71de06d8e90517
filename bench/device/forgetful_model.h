// A draft that meets text it does not know: from some position on its guesses are worthless, since
// its logits are those of other tokens.
//
// Thread rule: as model.h, except that forget_from() may be called from anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "common/model/model.h"

namespace outrider {

class ForgetfulModel final : public Model {
 public:
  explicit ForgetfulModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  // Rows at this position and later give the logits of other tokens.
  void forget_from(Position position) { known_.store(position, std::memory_order_relaxed); }

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_->new_cache(capacity);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  const std::unique_ptr<Model> model_;
  std::atomic<Position> known_{std::numeric_limits<Position>::max()};
};

}  // namespace outrider

// A weaker draft than the one it is made of: noise on its logits, the same for a token at a
// position. What it was sure of it still guesses; where two tokens are close it takes the wrong
// one.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "common/model/model.h"

namespace outrider {

class BlurredModel final : public Model {
 public:
  // deviation: of the noise, in logits; 0: none.
  BlurredModel(std::unique_ptr<Model> model, double deviation)
      : model_(std::move(model)), deviation_(static_cast<float>(deviation)) {}

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_->new_cache(capacity);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  const std::unique_ptr<Model> model_;
  const float deviation_;
};

}  // namespace outrider

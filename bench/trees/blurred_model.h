// A weaker draft than the one it is made of: noise on its logits, the same for a token at a
// position. What it was sure of it still guesses; where two tokens are close it takes the wrong
// one.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "common/model/model.h"

namespace outrider {

// A model whose logits are altered row by row after each pass; what derives says how.
class AlteredModel : public Model {
 public:
  const ModelInfo& info() const final { return model_->info(); }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) final {
    return model_->new_cache(capacity);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) final;

 protected:
  explicit AlteredModel(std::unique_ptr<Model> model) : model_(std::move(model)) {}

 private:
  // logits: of the row at this position, one for each token of the vocabulary.
  virtual void alter(Position position, std::span<float> logits) = 0;

  const std::unique_ptr<Model> model_;
};

class BlurredModel final : public AlteredModel {
 public:
  // deviation: of the noise, in logits; 0: none.
  BlurredModel(std::unique_ptr<Model> model, double deviation)
      : AlteredModel(std::move(model)), deviation_(static_cast<float>(deviation)) {}

 private:
  void alter(Position position, std::span<float> logits) override;

  const float deviation_;
};

}  // namespace outrider

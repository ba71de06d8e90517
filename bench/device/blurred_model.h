// A weaker draft than the one it is made of: noise on its logits, the same for a token at a
// position. What it was sure of it still guesses; where two tokens are close it takes the wrong
// one.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "bench/device/altered_model.h"

namespace outrider {

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

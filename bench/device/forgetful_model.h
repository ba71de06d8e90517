// A draft that meets text it does not know: from some position on its guesses are worthless, since
// its logits are those of other tokens.
//
// Thread rule: as model.h, except that forget_from() may be called from anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "bench/device/altered_model.h"

namespace outrider {

class ForgetfulModel final : public AlteredModel {
 public:
  explicit ForgetfulModel(std::unique_ptr<Model> model) : AlteredModel(std::move(model)) {}

  // Rows at this position and later give the logits of other tokens.
  void forget_from(Position position) { known_.store(position, std::memory_order_relaxed); }

 private:
  void alter(Position position, std::span<float> logits) override;

  std::atomic<Position> known_{std::numeric_limits<Position>::max()};
};

}  // namespace outrider

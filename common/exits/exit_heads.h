// The seam between a verifying session and whatever predicts from hidden states.
//
// Thread rule: compute() belongs to the model's compute thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/exits/calibration.h"
#include "common/model/model.h"

namespace outrider {

class ExitHeads {
 public:
  virtual ~ExitHeads() = default;

  // By exit, rising: after how many layers it looks. Constant.
  virtual std::span<const std::int32_t> layers() const = 0;

  // The logits of exit layers()[exit] for hidden states after that layer: [rows.count, vocab] f32
  // to `logits`, which has that size; -infinity for tokens that the exit does not consider.
  virtual void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) = 0;

  // What a drafted token's perturbed score counts for more in this exit's choices.
  virtual DraftPrior prior(std::size_t exit, double temperature) const = 0;

  // How likely a walk with these rows names the whole outcome, 0 .. 1.
  virtual double confidence(std::size_t exit, double temperature,
                            std::span<const RowEvidence> rows) const = 0;
};

}  // namespace outrider

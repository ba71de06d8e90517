// The interface between a verifying session and early exits, which predict from hidden states.
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

  // The layers after which the exits read hidden states, by exit, rising. Constant.
  virtual std::span<const std::int32_t> layers() const = 0;

  // The logits of exit layers()[exit] for hidden states after that layer: [rows.count, vocab] f32
  // into `logits`, which has that size; -infinity for tokens that the exit does not consider.
  virtual void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) = 0;

  // What this exit adds to a drafted token's perturbed score.
  virtual DraftPrior prior(std::size_t exit, double temperature) const = 0;

  // The probability, 0 .. 1, that a walk with these rows names the whole outcome.
  virtual double confidence(std::size_t exit, double temperature,
                            std::span<const RowEvidence> rows) const = 0;
};

}  // namespace outrider

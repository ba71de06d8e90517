// Early exits of ToyModel that are right now and then: the logits of an exit are those of the
// model, or, for a share of the texts that shrinks from exit to exit, of another text. A function
// of exit and text alone, so that a test can say what an exit must have reported.
//
// Thread rule: as exit_heads.h says. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/decoding/exits/exit_heads.h"
#include "tests/sim/toy_model.h"

namespace outrider {

class ToyExits final : public ExitHeads {
 public:
  // One exit after every layer but the last. model: outlives it.
  explicit ToyExits(const ToyModel& model);

  std::span<const std::int32_t> layers() const override { return layers_; }
  void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) override;
  DraftPrior prior(std::size_t, double) const override { return draft_prior; }
  double confidence(std::size_t exit, double temperature,
                    std::span<const RowEvidence> rows) const override;

  // The exit's logits after a text.
  std::vector<float> logits_after(std::size_t exit, std::span<const TokenId> text) const;

  DraftPrior draft_prior = {};  // of every exit

 private:
  const ToyModel& model_;
  std::vector<std::int32_t> layers_;
};

}  // namespace outrider

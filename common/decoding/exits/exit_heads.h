// The interface between a verifying session and early exits, which predict from hidden states.
//
// Thread rule: compute() and compute_some() belong to the model's compute thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "common/decoding/exits/calibration.h"
#include "common/engine/model/model.h"

namespace outrider {

// Tokens of which logits are wanted.
struct TokensOfRows {
  std::size_t vocab = 0;                        // of the target
  std::vector<std::vector<TokenId>> rows = {};  // by row of hidden states; no token is beyond vocab
};

class ExitHeads {
 public:
  virtual ~ExitHeads() = default;

  // The layers after which the exits read hidden states, by exit, rising. Constant.
  virtual std::span<const std::int32_t> layers() const = 0;
  // The layer of one exit more, which only prunes (branch_pruner.h); as an exit it has the number
  // layers().size(). Nothing: there is none. Constant.
  virtual std::optional<std::int32_t> pruning_layer() const { return std::nullopt; }

  // Lets the model compute the reporting exits beside its passes, where it can. UNIMPLEMENTED where
  // it cannot; other errors say why it does not. compute() does what the model leaves out.
  virtual Status offer_to(Model&) { return unimplemented("these exits have no heads for a model"); }

  // The logits of exit layers()[exit] for hidden states after that layer: [rows.count, vocab] f32
  // into `logits`, which has that size; -infinity for tokens that the exit does not consider.
  virtual void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) = 0;

  // The same logits of some tokens only, row after row into `logits`, which has their number.
  virtual void compute_some(std::size_t exit, const HiddenRows& rows, const TokensOfRows& wanted,
                            std::span<float> logits) {
    std::vector<float> all(rows.count * wanted.vocab);
    compute(exit, rows, all);
    auto out = logits.begin();
    for (std::size_t row = 0; row < rows.count; ++row) {
      for (const TokenId token : wanted.rows[row]) {
        *out++ = all[row * wanted.vocab + static_cast<std::size_t>(token)];
      }
    }
  }

  // The prior that this exit adds to a drafted token's perturbed score.
  virtual DraftPrior prior(std::size_t exit, double temperature) const = 0;

  // The probability, 0 .. 1, that a walk with these rows names the whole outcome.
  virtual double confidence(std::size_t exit, double temperature,
                            std::span<const RowEvidence> rows) const = 0;
};

// The index of the layer nearest to the middle of the model, among one at least; the later one of
// two that are as near, as it knows more.
inline std::size_t nearest_to_middle(std::span<const std::int32_t> layers,
                                     std::int32_t num_layers) {
  const auto distance = [&](std::int32_t layer) { return std::abs(2 * layer - num_layers); };
  std::size_t best = 0;
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const bool later = layers[i] > layers[best];
    const int by = distance(layers[i]) - distance(layers[best]);
    if (by < 0 || (by == 0 && later)) best = i;
  }
  return best;
}

}  // namespace outrider

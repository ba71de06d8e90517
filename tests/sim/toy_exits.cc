// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/toy_exits.h"

#include <algorithm>

namespace outrider {

ToyExits::ToyExits(const ToyModel& model) : model_(model) {
  for (std::int32_t layer = 1; layer < model.info().num_layers; ++layer) layers_.push_back(layer);
}

std::vector<float> ToyExits::logits_after(std::size_t exit, std::span<const TokenId> text) const {
  std::vector<TokenId> seen(text.begin(), text.end());
  std::size_t sum = exit;
  for (const TokenId token : text) sum = sum * 31 + static_cast<std::size_t>(token);
  if (sum % (exit + 2) == 0) seen.push_back(static_cast<TokenId>(exit));
  return model_.logits_after(seen);
}

void ToyExits::compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) {
  auto out = logits.begin();
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::vector<TokenId> text = ToyModel::text_of_hidden(rows.row(i));
    const std::vector<float> row = logits_after(exit, text);
    out = std::copy(row.begin(), row.end(), out);
  }
}

double ToyExits::confidence(std::size_t exit, double, std::span<const RowEvidence> rows) const {
  return outrider::confidence(Calibration{}, rows) * static_cast<double>(exit + 1) /
         static_cast<double>(layers_.size());
}

}  // namespace outrider

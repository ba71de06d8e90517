// Keeps the hidden states that a pass shows of its layers, except those of layer 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/engine/model/model.h"

namespace outrider {

class RecordingTap final : public LayerTap {
 public:
  bool wants(std::int32_t layer) const override { return layer != 2; }
  void on_layer(const HiddenRows& rows) override {
    auto& to = seen[rows.layer];
    to.resize((rows.first + rows.count) * rows.width);
    std::copy_n(rows.values, rows.count * rows.width,
                to.begin() + static_cast<std::ptrdiff_t>(rows.first * rows.width));
  }

  std::map<std::int32_t, std::vector<float>> seen;  // by layer, [rows that want logits, width]
};

}  // namespace outrider

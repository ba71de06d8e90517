// Writes quantised weights into the panels of a matrix (quant_format.h).
//
// Thread rule: calls for different panels may run concurrently. Ownership: the matrix's memory is
// the caller's, all zero before the first call. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/engine/model/cpu/kernels/quant_format.h"

namespace outrider {

class PanelWriter final {
 public:
  // data: PanelLayout::panels(outputs) panels for that many inputs.
  PanelWriter(const QuantFormat& format, std::int64_t inputs, std::byte* data)
      : format_(format), layout_(format, inputs), data_(data) {}

  // 32 weights of an output: group `index` along K.
  void store(std::int64_t output, std::int64_t index, const WeightGroup& group) const;

 private:
  void store_multiples(std::byte* panel, std::int64_t index, std::int64_t column,
                       const Multiples& multiples) const;

  QuantFormat format_;
  PanelLayout layout_;
  std::byte* data_;
};

// Reads the weights of one output, [inputs] f32, from a matrix: for tests and measurements.
void read_panel_row(const QuantFormat& format, std::int64_t inputs, const std::byte* data,
                    std::int64_t output, float* out);

}  // namespace outrider

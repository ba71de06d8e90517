// A tensor of a mapped weight file, and its values as f32.
//
// Ownership: a view; the mapping outlives it. Thread rule: values; free functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/model/format/dtype.h"

namespace outrider {

// Row-major and contiguous, aligned to its element. Elements and rows are numbered as the model
// means them; row() and widen() know where they lie.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // the last is whole blocks of the dtype
  const std::byte* data = nullptr;
  std::size_t num_bytes = 0;
  // Not 0: GGUF's order of a Llama model's query and key rows. In each head of this many rows, the
  // two halves that the rotation pairs, i and i + interleaved / 2, lie at rows 2i and 2i + 1.
  std::int64_t interleaved = 0;

  std::int64_t num_elements() const {
    return static_cast<std::int64_t>(num_bytes) / block_bytes(dtype) * block_elements(dtype);
  }
  std::int64_t num_rows() const { return shape.empty() ? 1 : shape[0]; }
  std::int64_t row_bytes() const { return static_cast<std::int64_t>(num_bytes) / num_rows(); }
  // Where row `index` lies.
  const std::byte* row(std::int64_t index) const;
};

// Writes the tensor's elements [begin, begin + out.size()) as f32: exact for single elements, and
// as the reference does for blocks (dequantize.h), which need not be asked for whole.
void widen(const TensorView& tensor, std::int64_t begin, std::span<float> out);
// The whole of a small one.
std::vector<float> widened(const TensorView& tensor);

}  // namespace outrider

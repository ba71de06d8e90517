// A tensor of a mapped weight file, and its values as f32.
//
// Ownership: a view; the mapping outlives it. Thread rule: values; free functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/engine/model/format/dtype.h"
#include "common/engine/model/format/quantized_matrix.h"

namespace outrider {

// Row-major and contiguous, aligned to its element. Elements and rows are numbered in the model's
// order; row() and widen() map them to the stored order.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // the last is whole blocks of the dtype
  const std::byte* data = nullptr;
  std::size_t num_bytes = 0;
  // If not 0, the order of GGUF for a Llama model's query and key rows. In each head of this many
  // rows, the two halves that the rotation pairs, i and i + interleaved / 2, are stored at rows 2i
  // and 2i + 1.
  std::int64_t interleaved = 0;
  // If not 0, the order of a matrix that is stored as [inputs, outputs]: element k of row n is the
  // element n + k * transposed from `data` on. Single elements only, no blocks.
  std::int64_t transposed = 0;
  float added = 0.0f;  // to each stored value
  // If not null, what a directory's quantised matrix consists of. `dtype`, `data` and `num_bytes`
  // are those of its numbers.
  std::shared_ptr<const QuantizedMatrix> quantized = nullptr;
  // If not null, the order of the rows, or of a matrix's columns: row n of the model is row
  // (*row_order)[n] of what the above describes (elastic_table.h). Not of a quantised matrix.
  std::shared_ptr<const std::vector<std::int32_t>> row_order = nullptr;
  std::shared_ptr<const std::vector<std::int32_t>> column_order = nullptr;

  // Whether the values lie in the model's order and are the model's.
  bool is_plain() const {
    return interleaved == 0 && transposed == 0 && added == 0.0f && quantized == nullptr &&
           row_order == nullptr && column_order == nullptr;
  }
  // Whether the order of the columns moves them in whole runs of `length`.
  bool keeps_runs(std::int64_t length) const;
  std::int64_t num_elements() const;
  std::int64_t num_rows() const { return shape.empty() ? 1 : shape[0]; }
  std::int64_t row_bytes() const { return static_cast<std::int64_t>(num_bytes) / num_rows(); }
  // Where row and column `index` of the model are in row_order and column_order.
  std::int64_t row_of(std::int64_t index) const { return place(row_order.get(), index); }
  std::int64_t column_of(std::int64_t index) const { return place(column_order.get(), index); }
  // The address of row `index`; not for a transposed or quantised matrix.
  const std::byte* row(std::int64_t index) const;

 private:
  static std::int64_t place(const std::vector<std::int32_t>* order, std::int64_t index) {
    return order == nullptr ? index : (*order)[static_cast<std::size_t>(index)];
  }
};

// By name.
using TensorMap = std::map<std::string, TensorView, std::less<>>;

// Writes the tensor's elements [begin, begin + out.size()) as f32: exact for single elements, and
// as the reference for blocks (dequantize.h) and quantised matrices (quantized_matrix.h). The range
// may begin and end within blocks.
void widen(const TensorView& tensor, std::int64_t begin, std::span<float> out);
// All values of a small tensor.
std::vector<float> widened(const TensorView& tensor);

// "[3, 4]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace outrider

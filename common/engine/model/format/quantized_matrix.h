// A matrix of a quantised Hugging Face directory, where it lies: integers or E4M3 numbers, scales,
// zero points. x = scale * (number - zero); E4M3 numbers have no zero points.
//
// With n an output, k an input, g = k / group_size the group of k:
//
//   AWQ   qweight [inputs, outputs / 8]    a word of row k has eight outputs, four bits each; from
//                                          its low bits on they are 0 2 4 6 1 3 5 7
//         qzeros [groups, outputs / 8]     in the same order
//         scales [groups, outputs]
//   GPTQ  qweight [inputs * bits / 32, outputs]   the words of column n are one string of bits,
//   from
//                                          the low bits of the first on: `bits` for each input
//         qzeros [groups, outputs * bits / 32]    row g is such a string of outputs; in format 1 it
//                                          has zero points less one, modulo 2^bits
//         scales [groups, outputs]
//         g_idx [inputs]                   if present, the group of k, in any order
//   FP8   weight [outputs, inputs]
//         weight_scale_inv or weight_scale, one for each block, output or matrix; despite the name
//         a
//                                          factor, not its inverse
//
// Words are I32, scales F32, F16 or BF16. Sizes are checked where such a matrix is made
// (quantized_tensors.h).
//
// Ownership: views; the mapping outlives them. Thread rule: immutable; read from any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/engine/model/format/dtype.h"
#include "common/engine/model/format/quantization.h"

namespace outrider {

struct QuantizedMatrix {
  QuantMethod method = QuantMethod::kNone;
  int bits = 0;  // of AWQ and GPTQ
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t first_output = 0;  // among the stored ones, of which this matrix may be a part
  std::int64_t stored_outputs = 0;
  std::int64_t group_size = 1;  // inputs that share a scale
  std::int64_t num_groups = 1;
  std::int64_t group_outputs = 1;  // of FP8: outputs that share a scale
  bool zeros_less_one = false;
  bool is_symmetric = false;  // every zero point is 2^(bits - 1)
  std::span<const std::byte> numbers;
  std::span<const std::byte> zeros;
  std::span<const std::byte> scales;
  DType scale_dtype = DType::kF16;
  std::span<const std::byte> group_ids;  // empty: groups lie in the order of the inputs

  // The matrix of some of the outputs.
  QuantizedMatrix rows(std::int64_t first, std::int64_t count) const;

  std::int64_t group_of(std::int64_t input) const;
  // 0 .. 2^bits - 1, of AWQ and GPTQ.
  int integer(std::int64_t output, std::int64_t input) const;
  int zero(std::int64_t output, std::int64_t group) const;
  float scale(std::int64_t output, std::int64_t group) const;

  // Writes elements [begin, begin + out.size()), row-major, each rounded once. Whole rows, several
  // at a time, are fastest: AWQ and GPTQ store columns.
  void widen(std::int64_t begin, std::span<float> out) const;

 private:
  void widen_rows(std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t length,
                  float* out) const;
};

}  // namespace outrider

// Converts the block types of GGUF files, and matrices of quantised directories, to the kernels'
// panels without changing a weight's value.
//
//   Q8_0, Q5_0         8 bits, f16 scales
//   Q5_1               8 bits, f16 scales and minimums
//   Q5_K               8 bits, multiples as scales and minimums
//   Q6_K               6 bits, multiples as scales, one for each 16 weights
//   Q4_0               4 bits, f16 scales
//   Q4_1               4 bits, f16 scales and minimums
//   Q4_K               4 bits, multiples as scales and minimums
//   IQ4_NL             4 bits, indices of a table, f16 scales
//   IQ4_XS             4 bits, indices of a table, multiples as scales
//   Q2_K               4 bits, multiples as scales and minimums, one for each 16 weights
//   Q3_K               4 bits, multiples as scales, one for each 16 weights
//
//   AWQ, GPTQ          4 bits, f32 scales and minimums; f16 scales (f32 if they are not f16) where
//                      each zero point is in the middle of the range
//   GPTQ of 8 bits     8 bits, f16 or f32 scales, if each zero point is in the middle
//
// The 4-bit types fit 8 bits too, with the same scales. A directory's groups must be whole groups
// of 32 inputs in the inputs' order; FP8 and other groups are no sums of integers here.
//
// Multiples are those of the blocks' own f16 numbers. Where a matrix's columns are moved in other
// than whole blocks of 256, scales and minimums are their products in f32, which are exact, and
// values of 6 bits take 8. Values of two and three bits take four bits, those of five bits eight.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/engine/model/cpu/kernels/quant_format.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {

// Nothing for types of single elements.
std::optional<QuantFormat> stored_format(DType dtype);
// Nothing if panels do not hold the matrix as it is.
std::optional<QuantFormat> stored_format(const QuantizedMatrix& matrix);
std::optional<QuantFormat> stored_format(const TensorView& tensor);

// The format for the same weights with `bits` per value, 8 or 4, at least those of `stored`. 8 are
// a bound: 6 stay 6.
QuantFormat with_bits(QuantFormat stored, std::uint8_t bits);

// Whether the format holds weights of the stored one, if there is one, without loss.
bool keeps_blocks(const QuantFormat& format, const std::optional<QuantFormat>& stored);

// dtype: a block type. block: block_bytes(dtype), of any alignment. out: block_elements(dtype) / 32
// groups, with values as stored_format() numbers them.
void unpack_block(DType dtype, const std::byte* block, WeightGroup* out);

// The group from input 32 * index on, of a matrix that has a format; padded at the end of the row.
void unpack_group(const QuantizedMatrix& matrix, std::int64_t output, std::int64_t index,
                  WeightGroup& out);

// Changes a group's values from those of `stored` to those of `format`, which keeps the blocks.
void renumber(const QuantFormat& stored, const QuantFormat& format, WeightGroup& group);

}  // namespace outrider

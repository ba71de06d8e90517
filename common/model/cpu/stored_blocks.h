// Converts the block types of GGUF files to the kernels' panels without changing a weight's value.
//
//   Q8_0, Q5_0         8 bits, f16 scales
//   Q5_1               8 bits, f16 scales and minimums
//   Q5_K               8 bits, f32 scales and minimums
//   Q6_K               8 bits, f32 scales, one for each 16 weights
//   Q4_0               4 bits, f16 scales
//   Q4_1               4 bits, f16 scales and minimums
//   Q4_K               4 bits, f32 scales and minimums
//   IQ4_NL             4 bits, indices of a table, f16 scales
//   IQ4_XS             4 bits, indices of a table, f32 scales
//   Q2_K               4 bits, f32 scales and minimums, one for each 16 weights
//   Q3_K               4 bits, f32 scales, one for each 16 weights
//
// The 4-bit types fit 8 bits too, with the same scales.
//
// The K types' scales are products of an f16 and a small integer, exact in f32. Values of two and
// three bits take four, those of five and six bits eight.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "common/model/cpu/kernels/quant_format.h"
#include "common/model/format/dtype.h"

namespace outrider {

// Nothing for types of single elements.
std::optional<QuantFormat> stored_format(DType dtype);

// The format for the same weights with `bits` per value, at least those of `stored`.
QuantFormat with_bits(QuantFormat stored, std::uint8_t bits);

// Whether the format holds blocks of this type without loss.
bool keeps_blocks(const QuantFormat& format, DType dtype);

// dtype: a block type. block: block_bytes(dtype), of any alignment. out: block_elements(dtype) / 32
// groups, with values as stored_format() numbers them.
void unpack_block(DType dtype, const std::byte* block, WeightGroup* out);

// Changes a group's values from those of `stored` to those of `format`, which keeps the blocks.
void renumber(const QuantFormat& stored, const QuantFormat& format, WeightGroup& group);

}  // namespace outrider

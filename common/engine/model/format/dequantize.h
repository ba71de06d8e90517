// Converts the block types of GGUF files to f32 as the reference implementation does, bit for bit.
//
// All scales are f16; the arithmetic is f32, each operation rounded. Below are the bytes of a block
// in order: d a scale, m a minimum, q values of 4 bits, two in a byte. The low halves of a run of
// bytes are its first elements, the high halves the following ones.
//
//   Q8_0   32  d, 32 int8                               x = d * q
//   Q4_0   32  d, 16 bytes of q                         x = d * (q - 8)
//   Q4_1   32  d, m, 16 bytes of q                      x = d * q + m
//   Q5_0   32  d, 4 bytes of fifth bits, 16 of q        x = d * (q - 16)
//   Q5_1   32  d, m, 4 bytes of fifth bits, 16 of q     x = d * q + m
//   Q4_K  256  d, m, 12 bytes of 6-bit s and n for 8 groups of 32, 128 of q
//                                                       x = (d * s) * q - (m * n)
//   Q5_K  256  as Q4_K with 32 bytes of fifth bits before q
//   Q6_K  256  128 bytes of low 4 bits, 64 of high 2 bits, 16 int8 s for groups of 16, d
//                                                       x = (d * s) * (q - 32)
//   Q2_K  256  16 bytes of 4-bit s and n for groups of 16, 64 of 2-bit q, d, m
//                                                       x = (d * s) * q - (m * n)
//   Q3_K  256  32 bytes of third bits, 64 of 2-bit q, 12 bytes of 6-bit s for groups of 16, d
//                                                       x = (d * (s - 32)) * (q - 4)
//   IQ4_NL  32 d, 16 bytes of q                         x = d * kIq4Values[q]
//   IQ4_XS 256 d, 2 and 4 bytes of high and low bits of 6-bit s for groups of 32, 128 of q
//                                                       x = (d * (s - 32)) * kIq4Values[q]
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/engine/model/format/dtype.h"

namespace outrider {

// dtype: a block type. block: block_bytes(dtype), of any alignment. out: block_elements(dtype).
void dequantize_block(DType dtype, const std::byte* block, float* out);

// The scale and the minimum of group 0..7 among the 12 packed bytes of Q4_K and Q5_K.
struct GroupScale {
  std::uint8_t scale = 0;    // 0..63
  std::uint8_t minimum = 0;  // 0..63
};
GroupScale unpack_group_scale(const std::byte* packed, int group);

// The scale -32..31 of group 0..15 among the 12 packed bytes of Q3_K.
int unpack_q3_k_scale(const std::byte* packed, int group);
// The scale -32..31 of group 0..7 of a block of IQ4_XS.
int unpack_iq4_xs_scale(const std::byte* block, int group);

// The numbers for which values of IQ4_NL and IQ4_XS stand: finer steps near zero.
inline constexpr std::array<std::int8_t, 16> kIq4Values = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace outrider

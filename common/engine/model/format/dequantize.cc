// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/dequantize.h"

#include <cstring>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr int kHalf = 16;   // bytes of 4-bit values in a block of 32
constexpr int kGroup = 32;  // of Q4_K and Q5_K

float scale_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return from_f16(bits);
}

int byte_at(const std::byte* at, int index) {
  return std::to_integer<int>(at[index]);
}

int signed_at(const std::byte* at, int index) {
  return static_cast<std::int8_t>(std::to_integer<std::uint8_t>(at[index]));
}

// Bit `index` of the four bytes, as 16.
int fifth_bit(const std::byte* bits, int index) {
  return (byte_at(bits, index / 8) >> (index % 8) & 1) << 4;
}

void q8_0(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (int i = 0; i < 2 * kHalf; ++i) out[i] = d * static_cast<float>(signed_at(block + 2, i));
}

void q4_0(const std::byte* block, float* out) {
  const float d = scale_at(block);
  const std::byte* q = block + 2;
  for (int i = 0; i < kHalf; ++i) {
    out[i] = d * static_cast<float>((byte_at(q, i) & 15) - 8);
    out[i + kHalf] = d * static_cast<float>((byte_at(q, i) >> 4) - 8);
  }
}

void q4_1(const std::byte* block, float* out) {
  const float d = scale_at(block);
  const float m = scale_at(block + 2);
  const std::byte* q = block + 4;
  for (int i = 0; i < kHalf; ++i) {
    out[i] = d * static_cast<float>(byte_at(q, i) & 15) + m;
    out[i + kHalf] = d * static_cast<float>(byte_at(q, i) >> 4) + m;
  }
}

void q5_0(const std::byte* block, float* out) {
  const float d = scale_at(block);
  const std::byte* bits = block + 2;
  const std::byte* q = block + 6;
  for (int i = 0; i < kHalf; ++i) {
    const int low = (byte_at(q, i) & 15) | fifth_bit(bits, i);
    const int high = byte_at(q, i) >> 4 | fifth_bit(bits, i + kHalf);
    out[i] = d * static_cast<float>(low - 16);
    out[i + kHalf] = d * static_cast<float>(high - 16);
  }
}

void q5_1(const std::byte* block, float* out) {
  const float d = scale_at(block);
  const float m = scale_at(block + 2);
  const std::byte* bits = block + 4;
  const std::byte* q = block + 8;
  for (int i = 0; i < kHalf; ++i) {
    const int low = (byte_at(q, i) & 15) | fifth_bit(bits, i);
    const int high = byte_at(q, i) >> 4 | fifth_bit(bits, i + kHalf);
    out[i] = d * static_cast<float>(low) + m;
    out[i + kHalf] = d * static_cast<float>(high) + m;
  }
}

// The scale and minimum of each group of a block that begins with d, m and the packed bytes.
struct GroupFactors {
  float d;
  float m;
};

GroupFactors factors_of(const std::byte* block, int group) {
  const GroupScale packed = unpack_group_scale(block + 4, group);
  return {scale_at(block) * static_cast<float>(packed.scale),
          scale_at(block + 2) * static_cast<float>(packed.minimum)};
}

// Groups g and g + 1 share 32 bytes.
void q4_k(const std::byte* block, float* out) {
  for (int g = 0; g < 8; ++g) {
    const auto [d, m] = factors_of(block, g);
    const std::byte* q = block + 16 + g / 2 * kGroup;
    for (int i = 0; i < kGroup; ++i) {
      const int value = byte_at(q, i) >> (g % 2 * 4) & 15;
      *out++ = d * static_cast<float>(value) - m;
    }
  }
}

// Bit g of fifth-bit byte i belongs to element i of group g.
void q5_k(const std::byte* block, float* out) {
  const std::byte* bits = block + 16;
  for (int g = 0; g < 8; ++g) {
    const auto [d, m] = factors_of(block, g);
    const std::byte* q = block + 48 + g / 2 * kGroup;
    for (int i = 0; i < kGroup; ++i) {
      const int value = (byte_at(q, i) >> (g % 2 * 4) & 15) | (byte_at(bits, i) >> g & 1) << 4;
      *out++ = d * static_cast<float>(value) - m;
    }
  }
}

// In each half of 128 elements: runs of 32, the low bits of runs 0 and 2 in the first 32 bytes, of
// 1 and 3 in the next, the high bits of run r in bits 2r and 2r + 1 of the same 32 bytes.
void q6_k(const std::byte* block, float* out) {
  const float d = scale_at(block + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + half * 64;
    const std::byte* high = block + 128 + half * 32;
    const std::byte* scales = block + 192 + half * 8;
    for (int run = 0; run < 4; ++run) {
      for (int i = 0; i < 32; ++i) {
        const int bits = byte_at(low, run % 2 * 32 + i) >> (run / 2 * 4) & 15;
        const int value = bits | (byte_at(high, i) >> (2 * run) & 3) << 4;
        const float scale = d * static_cast<float>(signed_at(scales, run * 2 + i / 16));
        *out++ = scale * static_cast<float>(value - 32);
      }
    }
  }
}

// Q2_K and Q3_K: element l of run r of each half of 128 is in bits 2r and 2r + 1 of byte l of the
// half's 32; a run has two groups.
int two_bits(const std::byte* q, int element) {
  const int half = element / 128, run = element % 128 / 32;
  return byte_at(q, half * 32 + element % 32) >> (2 * run) & 3;
}

void q2_k(const std::byte* block, float* out) {
  const float d = scale_at(block + 80);
  const float m = scale_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int packed = byte_at(block, i / 16);
    const float scale = d * static_cast<float>(packed & 15);
    out[i] =
        scale * static_cast<float>(two_bits(block + 16, i)) - m * static_cast<float>(packed >> 4);
  }
}

// Third bit i of the runs of 32 elements is bit r of byte i, for run r of 8.
void q3_k(const std::byte* block, float* out) {
  const float d = scale_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int third = (byte_at(block, i % 32) >> (i / 32) & 1) << 2;
    const float scale = d * static_cast<float>(unpack_q3_k_scale(block + 96, i / 16));
    out[i] = scale * static_cast<float>((two_bits(block + 32, i) | third) - 4);
  }
}

// 32 values in 16 bytes: the low halves, then the high ones.
void iq4_group(const std::byte* q, float scale, float* out) {
  for (int i = 0; i < kHalf; ++i) {
    out[i] = scale * static_cast<float>(kIq4Values[static_cast<std::size_t>(byte_at(q, i) & 15)]);
    out[i + kHalf] =
        scale * static_cast<float>(kIq4Values[static_cast<std::size_t>(byte_at(q, i) >> 4)]);
  }
}

void iq4_xs(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (int g = 0; g < 8; ++g) {
    const float scale = d * static_cast<float>(unpack_iq4_xs_scale(block, g));
    iq4_group(block + 8 + g * kHalf, scale, out + g * kGroup);
  }
}

}  // namespace

// Groups 0..7 have the low halves of 8 bytes, groups 8..15 the high ones; byte 8 + g % 4 has their
// upper two bits.
int unpack_q3_k_scale(const std::byte* packed, int group) {
  const int low = byte_at(packed, group % 8) >> (group / 8 * 4) & 15;
  const int high = byte_at(packed, 8 + group % 4) >> (group / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

int unpack_iq4_xs_scale(const std::byte* block, int group) {
  const int low = byte_at(block, 4 + group / 2) >> (group % 2 * 4) & 15;
  const int high = byte_at(block, 2 + group / 4) >> (group % 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// Groups 0..3 have a byte each for scale and minimum, of which they use 6 bits; groups 4..7 have 4
// bits each of a shared byte, and the 2 unused bits of the first four.
GroupScale unpack_group_scale(const std::byte* packed, int group) {
  const auto at = [packed](int index) { return byte_at(packed, index); };
  int scale = at(group) & 63;
  int minimum = at(group + 4) & 63;
  if (group >= 4) {
    scale = (at(group + 4) & 15) | at(group - 4) >> 6 << 4;
    minimum = at(group + 4) >> 4 | at(group) >> 6 << 4;
  }
  return {static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(minimum)};
}

void dequantize_block(DType dtype, const std::byte* block, float* out) {
  switch (dtype) {
    case DType::kQ8_0:
      return q8_0(block, out);
    case DType::kQ4_0:
      return q4_0(block, out);
    case DType::kQ4_1:
      return q4_1(block, out);
    case DType::kQ5_0:
      return q5_0(block, out);
    case DType::kQ5_1:
      return q5_1(block, out);
    case DType::kQ4_K:
      return q4_k(block, out);
    case DType::kQ5_K:
      return q5_k(block, out);
    case DType::kQ6_K:
      return q6_k(block, out);
    case DType::kQ2_K:
      return q2_k(block, out);
    case DType::kQ3_K:
      return q3_k(block, out);
    case DType::kIQ4_NL:
      return iq4_group(block + 2, scale_at(block), out);
    case DType::kIQ4_XS:
      return iq4_xs(block, out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kI32:
      break;
  }
  OUTRIDER_CHECK(false);
}

}  // namespace outrider

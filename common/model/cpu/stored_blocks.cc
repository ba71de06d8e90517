// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/stored_blocks.h"

#include <cstdint>
#include <cstring>

#include "common/base/status.h"
#include "common/model/format/dequantize.h"

namespace outrider {
namespace {

constexpr int kHalf = 16;              // bytes of 4-bit values in a block of 32
constexpr int kGroups = 8;             // groups of 32 in a block of 256
constexpr std::uint8_t kMiddle = 128;  // the value for 0 in 8 bits

float f16_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return from_f16(bits);
}

std::uint8_t byte_at(const std::byte* at, int index) {
  return std::to_integer<std::uint8_t>(at[index]);
}

// 32 values of 4 bits: the low halves of 16 bytes, then the high ones.
void unpack_halves(const std::byte* q, WeightGroup& out) {
  for (int i = 0; i < kHalf; ++i) {
    out.values[i] = byte_at(q, i) & 15;
    out.values[kHalf + i] = byte_at(q, i) >> 4;
  }
}

// Adds bit i of four bytes to value i, as 16.
void add_fifth_bits(const std::byte* bits, WeightGroup& out) {
  for (int i = 0; i < kQuantGroup; ++i) {
    out.values[i] |= static_cast<std::uint8_t>((byte_at(bits, i / 8) >> (i % 8) & 1) << 4);
  }
}

// Blocks of 32 that begin with an f16 scale, and a minimum if the type has one.
void unpack_32(DType dtype, const std::byte* block, WeightGroup& out) {
  out.scales[0] = out.scales[1] = f16_at(block);
  if (dtype == DType::kQ8_0) {
    for (int i = 0; i < kQuantGroup; ++i) out.values[i] = byte_at(block + 2, i) ^ kMiddle;
    return;
  }
  const bool has_minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  const std::byte* q = block + 2;
  if (has_minimum) {
    out.minimum = f16_at(q);
    q += 2;
  }
  if (dtype == DType::kQ4_0 || dtype == DType::kQ4_1) return unpack_halves(q, out);
  unpack_halves(q + 4, out);
  add_fifth_bits(q, out);
  if (has_minimum) return;
  for (std::uint8_t& value : out.values) value += kMiddle - 16;
}

// Q4_K and Q5_K: groups 2g and 2g + 1 share 32 bytes; bit g of fifth-bit byte i is of element i of
// group g.
void unpack_k(const std::byte* block, const std::byte* fifth_bits, const std::byte* q,
              WeightGroup* out) {
  for (int g = 0; g < kGroups; ++g) {
    const GroupScale packed = unpack_group_scale(block + 4, g);
    out[g].scales[0] = out[g].scales[1] = f16_at(block) * static_cast<float>(packed.scale);
    out[g].minimum = -(f16_at(block + 2) * static_cast<float>(packed.minimum));
    for (int i = 0; i < kQuantGroup; ++i) {
      const int low = byte_at(q + g / 2 * kQuantGroup, i) >> (g % 2 * 4) & 15;
      const int fifth = fifth_bits == nullptr ? 0 : (byte_at(fifth_bits, i) >> g & 1) << 4;
      out[g].values[i] = static_cast<std::uint8_t>(low | fifth);
    }
  }
}

// Each half of 128 elements has four groups: the low bits of groups 0 and 2 in the first 32 bytes,
// of 1 and 3 in the next; the high bits of all four in 32 bytes.
void unpack_q6_k(const std::byte* block, WeightGroup* out) {
  const std::byte* scales = block + 192;
  const float d = f16_at(block + 208);
  for (int g = 0; g < kGroups; ++g) {
    const int half = g / 4, run = g % 4;
    const std::byte* low = block + half * 64 + run % 2 * 32;
    const std::byte* high = block + 128 + half * 32;
    for (int i = 0; i < kQuantGroup; ++i) {
      const int bits = byte_at(low, i) >> (run / 2 * 4) & 15;
      const int value = bits | (byte_at(high, i) >> (2 * run) & 3) << 4;
      out[g].values[i] = static_cast<std::uint8_t>(value - 32 + kMiddle);
    }
    for (int s = 0; s < 2; ++s) {
      out[g].scales[s] =
          d * static_cast<float>(static_cast<std::int8_t>(byte_at(scales, 2 * g + s)));
    }
  }
}

}  // namespace

std::optional<QuantFormat> stored_format(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return std::nullopt;
    case DType::kQ8_0:
    case DType::kQ5_0:
      return QuantFormat{.bits = 8};
    case DType::kQ5_1:
      return QuantFormat{.bits = 8, .has_minimum = true};
    case DType::kQ5_K:
      return QuantFormat{.bits = 8, .wide_scales = true, .has_minimum = true};
    case DType::kQ6_K:
      return QuantFormat{.bits = 8, .scale_group = 16, .wide_scales = true};
    case DType::kQ4_0:
      return QuantFormat{.bits = 4};
    case DType::kQ4_1:
      return QuantFormat{.bits = 4, .has_minimum = true};
    case DType::kQ4_K:
      return QuantFormat{.bits = 4, .wide_scales = true, .has_minimum = true};
  }
  OUTRIDER_CHECK(false);
}

bool keeps_blocks(const QuantFormat& format, DType dtype) {
  std::optional<QuantFormat> stored = stored_format(dtype);
  if (!stored) return false;
  if (format.bits == 8) stored->bits = 8;
  return format == *stored;
}

void unpack_block(DType dtype, const std::byte* block, WeightGroup* out) {
  switch (dtype) {
    case DType::kQ4_K:
      return unpack_k(block, nullptr, block + 16, out);
    case DType::kQ5_K:
      return unpack_k(block, block + 16, block + 48, out);
    case DType::kQ6_K:
      return unpack_q6_k(block, out);
    default:
      OUTRIDER_CHECK(block_elements(dtype) == kQuantGroup);
      return unpack_32(dtype, block, *out);
  }
}

}  // namespace outrider

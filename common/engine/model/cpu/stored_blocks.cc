// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/stored_blocks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/base/status.h"
#include "common/engine/model/format/dequantize.h"

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
  if (dtype == DType::kQ4_0 || dtype == DType::kQ4_1 || dtype == DType::kIQ4_NL) {
    return unpack_halves(q, out);
  }
  unpack_halves(q + 4, out);
  add_fifth_bits(q, out);
  if (has_minimum) return;
  for (std::uint8_t& value : out.values) value += kMiddle - 16;
}

// Scale i of a group is so many times the unit, which is exact.
void take_scale(int i, float unit, int multiple, WeightGroup& out) {
  out.scales[i] = unit * static_cast<float>(multiple);
  out.multiples.unit = unit;
  out.multiples.scales[i] = static_cast<std::int8_t>(multiple);
}

// Takes minimum i, which the K types subtract.
void take_minimum(int i, float unit, int multiple, WeightGroup& out) {
  (i == 0 ? out.minimum : out.second_minimum) = -unit * static_cast<float>(multiple);
  out.multiples.minimum_unit = -unit;
  out.multiples.minimums[i] = static_cast<std::int8_t>(multiple);
}

// One scale for the whole group.
void take_whole_scale(float unit, int multiple, WeightGroup& out) {
  take_scale(0, unit, multiple, out);
  out.scales[1] = out.scales[0];
}

// Q4_K and Q5_K: groups 2g and 2g + 1 share 32 bytes; bit g of fifth-bit byte i is of element i of
// group g.
void unpack_k(const std::byte* block, const std::byte* fifth_bits, const std::byte* q,
              WeightGroup* out) {
  for (int g = 0; g < kGroups; ++g) {
    const GroupScale packed = unpack_group_scale(block + 4, g);
    take_whole_scale(f16_at(block), packed.scale, out[g]);
    take_minimum(0, f16_at(block + 2), packed.minimum, out[g]);
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
      out[g].values[i] = static_cast<std::uint8_t>(value);
    }
    for (int s = 0; s < 2; ++s) {
      take_scale(s, d, static_cast<std::int8_t>(byte_at(scales, 2 * g + s)), out[g]);
    }
  }
}

// Value i of group g in two bits each (dequantize.cc).
int two_bits(const std::byte* q, int g, int i) {
  return byte_at(q + g / 4 * kQuantGroup, i) >> (2 * (g % 4)) & 3;
}

void unpack_q2_k(const std::byte* block, WeightGroup* out) {
  const float d = f16_at(block + 80), m = f16_at(block + 82);
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 0; i < kQuantGroup; ++i) {
      out[g].values[i] = static_cast<std::uint8_t>(two_bits(block + 16, g, i));
    }
    for (int s = 0; s < 2; ++s) {
      const int both = byte_at(block, 2 * g + s);
      take_scale(s, d, both & 15, out[g]);
      take_minimum(s, m, both >> 4, out[g]);
    }
  }
}

void unpack_q3_k(const std::byte* block, WeightGroup* out) {
  const float d = f16_at(block + 108);
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 0; i < kQuantGroup; ++i) {
      const int third = (byte_at(block, i) >> g & 1) << 2;
      // A value of 3 bits means 0 at 4, one of 4 bits at 8.
      out[g].values[i] = static_cast<std::uint8_t>((two_bits(block + 32, g, i) | third) + 4);
    }
    for (int s = 0; s < 2; ++s) {
      take_scale(s, d, unpack_q3_k_scale(block + 96, 2 * g + s), out[g]);
    }
  }
}

void unpack_iq4_xs(const std::byte* block, WeightGroup* out) {
  for (int g = 0; g < kGroups; ++g) {
    unpack_halves(block + 8 + g * kHalf, out[g]);
    take_whole_scale(f16_at(block), unpack_iq4_xs_scale(block, g), out[g]);
  }
}

}  // namespace

std::optional<QuantFormat> stored_format(DType dtype) {
  constexpr ScaleType kMultiples = ScaleType::kMultiples;
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kI32:
      return std::nullopt;
    case DType::kQ8_0:
    case DType::kQ5_0:
      return QuantFormat{.bits = 8};
    case DType::kQ5_1:
      return QuantFormat{.bits = 8, .has_minimum = true};
    case DType::kQ5_K:
      return QuantFormat{.bits = 8, .scales = kMultiples, .has_minimum = true};
    case DType::kQ6_K:
      return QuantFormat{.bits = 6, .scale_group = 16, .scales = kMultiples};
    case DType::kQ4_0:
      return QuantFormat{.bits = 4};
    case DType::kQ4_1:
      return QuantFormat{.bits = 4, .has_minimum = true};
    case DType::kQ4_K:
      return QuantFormat{.bits = 4, .scales = kMultiples, .has_minimum = true};
    case DType::kQ2_K:
      return QuantFormat{.bits = 4, .scale_group = 16, .scales = kMultiples, .has_minimum = true};
    case DType::kQ3_K:
      return QuantFormat{.bits = 4, .scale_group = 16, .scales = kMultiples};
    case DType::kIQ4_NL:
      return QuantFormat{.bits = 4, .has_table = true};
    case DType::kIQ4_XS:
      return QuantFormat{.bits = 4, .scales = kMultiples, .has_table = true};
  }
  OUTRIDER_CHECK(false);
}

std::optional<QuantFormat> stored_format(const QuantizedMatrix& matrix) {
  const bool is_in_order = matrix.group_ids.empty();
  const bool fits_groups = matrix.num_groups == 1 || matrix.group_size % kQuantGroup == 0;
  if (matrix.method == QuantMethod::kFp8 || !is_in_order || !fits_groups) return std::nullopt;
  const bool is_f16 = matrix.is_symmetric && matrix.scale_dtype == DType::kF16;
  const QuantFormat format{.bits = static_cast<std::uint8_t>(matrix.bits == 8 ? 8 : 4),
                           .scales = is_f16 ? ScaleType::kF16 : ScaleType::kF32,
                           .has_minimum = !matrix.is_symmetric};
  // Values of 8 bits with a minimum are at most 127; an f32 scale times a zero point is rounded.
  const bool is_exact =
      matrix.is_symmetric || (format.bits == 4 && matrix.scale_dtype != DType::kF32);
  return is_exact ? std::optional(format) : std::nullopt;
}

std::optional<QuantFormat> stored_format(const TensorView& tensor) {
  if (tensor.quantized != nullptr) return stored_format(*tensor.quantized);
  std::optional<QuantFormat> format = stored_format(tensor.dtype);
  const bool has_units = format && format->scales == ScaleType::kMultiples;
  // Groups that part from their block have no neighbours with their unit.
  if (has_units && !tensor.keeps_runs(kBlockGroups * kQuantGroup)) {
    format->scales = ScaleType::kF32;
    if (format->bits == 6) format->bits = 8;
  }
  return format;
}

bool keeps_blocks(const QuantFormat& format, const std::optional<QuantFormat>& stored) {
  return stored && format.bits >= stored->bits && format == with_bits(*stored, format.bits);
}

QuantFormat with_bits(QuantFormat stored, std::uint8_t bits) {
  if (bits == 8) stored.has_table = false;
  if (bits == 4 || stored.bits == 4) stored.bits = bits;
  return stored;
}

void renumber(const QuantFormat& stored, const QuantFormat& format, WeightGroup& group) {
  const bool looks_up = stored.has_table && !format.has_table;
  const auto shift = static_cast<std::uint8_t>(looks_up ? 0 : format.zero() - stored.zero());
  for (std::uint8_t& value : group.values) {
    value = static_cast<std::uint8_t>((looks_up ? kTableValues[value] : value) + shift);
  }
}

void unpack_block(DType dtype, const std::byte* block, WeightGroup* out) {
  switch (dtype) {
    case DType::kQ4_K:
      return unpack_k(block, nullptr, block + 16, out);
    case DType::kQ5_K:
      return unpack_k(block, block + 16, block + 48, out);
    case DType::kQ6_K:
      return unpack_q6_k(block, out);
    case DType::kQ2_K:
      return unpack_q2_k(block, out);
    case DType::kQ3_K:
      return unpack_q3_k(block, out);
    case DType::kIQ4_XS:
      return unpack_iq4_xs(block, out);
    default:
      OUTRIDER_CHECK(block_elements(dtype) == kQuantGroup);
      return unpack_32(dtype, block, *out);
  }
}

void unpack_group(const QuantizedMatrix& matrix, std::int64_t output, std::int64_t index,
                  WeightGroup& out) {
  out = {};
  const std::int64_t begin = index * kQuantGroup;
  const std::int64_t count = std::min(kQuantGroup, matrix.inputs - begin);
  const std::int64_t group = matrix.group_of(begin);
  // Two and three bits with the zero point in the middle of four.
  const int raise = matrix.is_symmetric && matrix.bits < 4 ? 8 - (1 << (matrix.bits - 1)) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    out.values[i] = static_cast<std::uint8_t>(matrix.integer(output, begin + i) + raise);
  }
  const float scale = matrix.scale(output, group);
  out.scales[0] = out.scales[1] = scale;
  if (!matrix.is_symmetric) {
    out.minimum = -(scale * static_cast<float>(matrix.zero(output, group)));
  }
}

}  // namespace outrider

// The element types of weight files and their exact conversion.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/engine/gguf/gguf_types.h"

namespace outrider {

// The first five are single elements, of which two are parts of quantised matrices and need scales
// (quantized_matrix.h). The others are GGUF's: a row consists of blocks of values of a few bits
// with their own scales (dequantize.h).
enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kI32,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ2_K,
  kQ3_K,
  kIQ4_NL,
  kIQ4_XS,
};
inline constexpr int kNumDTypes = 17;

// Elements of a block, 1, 32 or 256, and its bytes. A tensor's last dimension is whole blocks: its
// rows have elements / block_elements * block_bytes bytes.
constexpr std::int64_t block_elements(DType dtype) {
  if (dtype <= DType::kI32) return 1;
  return dtype < DType::kQ4_K || dtype == DType::kIQ4_NL ? 32 : 256;
}
std::int64_t block_bytes(DType dtype);

// Whether values of this type are no weights by themselves.
constexpr bool needs_scales(DType dtype) {
  return dtype == DType::kF8E4M3 || dtype == DType::kI32;
}

// The spelling of safetensors and GGUF: "F32", "F16", "BF16", "F8_E4M3", "I32", "Q8_0".
std::string_view to_string(DType dtype);
DType dtype_of(GgufTensorType type);
// The types of safetensors files: "F32", "F16", "BF16", "F8_E4M3", "I32".
std::optional<DType> parse_dtype(std::string_view name);

// The spelling of config.json: "float32", "float16", "bfloat16". Not for other types.
std::string_view config_name(DType dtype);

// Widening is exact. Narrowing rounds to nearest, ties to even; NaN stays NaN.
constexpr float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
float from_f16(std::uint16_t bits);
// A sign, four bits of exponent and three of fraction. Both numbers of seven ones are NaN; there is
// no infinity.
float from_f8_e4m3(std::uint8_t bits);
std::uint16_t to_bf16(float value);
std::uint16_t to_f16(float value);

}  // namespace outrider

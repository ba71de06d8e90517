// The element types of weight files and their exact conversion.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace outrider {

enum class DType : std::uint8_t { kF32, kF16, kBF16 };

constexpr std::size_t dtype_size(DType dtype) {
  return dtype == DType::kF32 ? 4 : 2;
}

// As safetensors spells it: "F32", "F16", "BF16".
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

// As config.json spells it: "float32", "float16", "bfloat16".
std::string_view config_name(DType dtype);

// Widening is exact. Narrowing rounds to nearest, ties to even; NaN stays NaN.
constexpr float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
float from_f16(std::uint16_t bits);
std::uint16_t to_bf16(float value);
std::uint16_t to_f16(float value);

}  // namespace outrider

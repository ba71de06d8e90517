// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/dtype.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/base/status.h"

namespace outrider {
namespace {

// In the order of DType; nothing for types that GGUF files do not have.
constexpr std::array<std::optional<GgufTensorType>, kNumDTypes> kGgufTypes = {
    GgufTensorType::kF32,   GgufTensorType::kF16,  GgufTensorType::kBF16, std::nullopt,
    std::nullopt,           GgufTensorType::kQ8_0, GgufTensorType::kQ4_0, GgufTensorType::kQ4_1,
    GgufTensorType::kQ5_0,  GgufTensorType::kQ5_1, GgufTensorType::kQ4_K, GgufTensorType::kQ5_K,
    GgufTensorType::kQ6_K,  GgufTensorType::kQ2_K, GgufTensorType::kQ3_K, GgufTensorType::kIQ4_NL,
    GgufTensorType::kIQ4_XS};

struct TypeInfo {
  std::string_view name;
  std::int64_t block_bytes = 0;
};

const TypeInfo& info_of_type(DType dtype) {
  static const auto infos = [] {
    std::array<TypeInfo, kNumDTypes> all{};
    std::ranges::transform(kGgufTypes, all.begin(), [](std::optional<GgufTensorType> type) {
      return type ? TypeInfo{info_of(*type).name, info_of(*type).block_bytes} : TypeInfo{};
    });
    all[static_cast<std::size_t>(DType::kF8E4M3)] = {"F8_E4M3", 1};
    all[static_cast<std::size_t>(DType::kI32)] = {"I32", 4};
    return all;
  }();
  return infos[static_cast<std::size_t>(dtype)];
}

constexpr std::uint32_t kF32Infinity = 0x7f800000;
// 2^16, the end of f16's range, and 2^-14, its smallest normal number.
constexpr std::uint32_t kF16Overflow = 0x47800000;
constexpr std::uint32_t kF16SmallestNormal = 0x38800000;

}  // namespace

std::int64_t block_bytes(DType dtype) {
  return info_of_type(dtype).block_bytes;
}

std::string_view to_string(DType dtype) {
  return info_of_type(dtype).name;
}

DType dtype_of(GgufTensorType type) {
  const auto found = std::ranges::find(kGgufTypes, type);
  OUTRIDER_CHECK(found != kGgufTypes.end());
  return static_cast<DType>(found - kGgufTypes.begin());
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kI32}) {
    if (name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

std::string_view config_name(DType dtype) {
  OUTRIDER_CHECK(block_elements(dtype) == 1 && !needs_scales(dtype));
  if (dtype == DType::kF32) return "float32";
  return dtype == DType::kF16 ? "float16" : "bfloat16";
}

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | kF32Infinity | fraction << 13);
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24, exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

float from_f8_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  float magnitude = 0;
  if (exponent == 15 && fraction == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = static_cast<float>(fraction) * 0x1p-9f;
  } else {
    magnitude = std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 120) << 23 |
                                     static_cast<std::uint32_t>(fraction) << 20);
  }
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & ~0x80000000u) > kF32Infinity) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & ~0x80000000u;
  std::uint32_t half = 0;
  if (magnitude > kF32Infinity) {
    half = 0x7e00;
  } else if (magnitude >= kF16Overflow) {
    half = 0x7c00;
  } else if (magnitude < kF16SmallestNormal) {
    // Adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded to nearest even.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
           std::bit_cast<std::uint32_t>(0.5f);
  } else {
    half = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace outrider

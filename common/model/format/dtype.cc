// SPDX-License-Identifier: Apache-2.0
#include "common/model/format/dtype.h"

#include <algorithm>
#include <array>

#include "common/base/status.h"

namespace outrider {
namespace {

// In the order of DType.
constexpr std::array<GgufTensorType, kNumDTypes> kGgufTypes = {
    GgufTensorType::kF32,  GgufTensorType::kF16,    GgufTensorType::kBF16,  GgufTensorType::kQ8_0,
    GgufTensorType::kQ4_0, GgufTensorType::kQ4_1,   GgufTensorType::kQ5_0,  GgufTensorType::kQ5_1,
    GgufTensorType::kQ4_K, GgufTensorType::kQ5_K,   GgufTensorType::kQ6_K,  GgufTensorType::kQ2_K,
    GgufTensorType::kQ3_K, GgufTensorType::kIQ4_NL, GgufTensorType::kIQ4_XS};

const GgufTensorTypeInfo& info_of_type(DType dtype) {
  static const auto infos = [] {
    std::array<const GgufTensorTypeInfo*, kGgufTypes.size()> all{};
    std::ranges::transform(kGgufTypes, all.begin(),
                           [](GgufTensorType type) { return &info_of(type); });
    return all;
  }();
  return *infos[static_cast<std::size_t>(dtype)];
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
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

std::string_view config_name(DType dtype) {
  OUTRIDER_CHECK(block_elements(dtype) == 1);
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

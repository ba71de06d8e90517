// The value and tensor types of GGUF files, by their numbers there.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outrider {

enum class GgufValueType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Nothing for a number that the format does not define.
std::optional<GgufValueType> gguf_value_type(std::uint32_t number);
std::string_view to_string(GgufValueType type);
// Bytes of one value; 0 for strings and arrays, which store their length.
std::size_t value_bytes(GgufValueType type);

// The tensor types that are supported. A row consists of blocks of `block_elements` elements in
// `block_bytes` bytes: values of a few bits with their scales.
enum class GgufTensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
};

struct GgufTensorTypeInfo {
  GgufTensorType type;
  const char* name;
  std::int64_t block_elements;
  std::int64_t block_bytes;
};

// nullptr for an unsupported type.
const GgufTensorTypeInfo* find_gguf_tensor_type(std::uint32_t number);
const GgufTensorTypeInfo& info_of(GgufTensorType type);
// "IQ2_XS" for known types that are not supported, else "number 77".
std::string foreign_tensor_type_name(std::uint32_t number);
// "F32, F16, BF16, Q8_0, ...".
std::string supported_tensor_types();

}  // namespace outrider

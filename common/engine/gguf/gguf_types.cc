// SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/gguf_types.h"

#include <array>
#include <utility>

#include "common/base/status.h"

namespace outrider {
namespace {

struct ValueTypeInfo {
  const char* name;
  std::size_t bytes;
};

// By number.
constexpr std::array<ValueTypeInfo, 13> kValueTypes = {{{"uint8", 1},
                                                        {"int8", 1},
                                                        {"uint16", 2},
                                                        {"int16", 2},
                                                        {"uint32", 4},
                                                        {"int32", 4},
                                                        {"float32", 4},
                                                        {"bool", 1},
                                                        {"string", 0},
                                                        {"array", 0},
                                                        {"uint64", 8},
                                                        {"int64", 8},
                                                        {"float64", 8}}};

constexpr std::array<GgufTensorTypeInfo, 15> kTensorTypes = {{
    {GgufTensorType::kF32, "F32", 1, 4},
    {GgufTensorType::kF16, "F16", 1, 2},
    {GgufTensorType::kBF16, "BF16", 1, 2},
    {GgufTensorType::kQ8_0, "Q8_0", 32, 34},
    {GgufTensorType::kQ4_0, "Q4_0", 32, 18},
    {GgufTensorType::kQ4_1, "Q4_1", 32, 20},
    {GgufTensorType::kQ5_0, "Q5_0", 32, 22},
    {GgufTensorType::kQ5_1, "Q5_1", 32, 24},
    {GgufTensorType::kQ4_K, "Q4_K", 256, 144},
    {GgufTensorType::kQ5_K, "Q5_K", 256, 176},
    {GgufTensorType::kQ6_K, "Q6_K", 256, 210},
    {GgufTensorType::kQ2_K, "Q2_K", 256, 84},
    {GgufTensorType::kQ3_K, "Q3_K", 256, 110},
    {GgufTensorType::kIQ4_NL, "IQ4_NL", 32, 18},
    {GgufTensorType::kIQ4_XS, "IQ4_XS", 256, 136},
}};

constexpr std::array<std::pair<std::uint32_t, const char*>, 22> kForeignTypes = {{
    {4, "Q4_2"},    {5, "Q4_3"},      {9, "Q8_1"},      {15, "Q8_K"},     {16, "IQ2_XXS"},
    {17, "IQ2_XS"}, {18, "IQ3_XXS"},  {19, "IQ1_S"},    {21, "IQ3_S"},    {22, "IQ2_S"},
    {24, "I8"},     {25, "I16"},      {26, "I32"},      {27, "I64"},      {28, "F64"},
    {29, "IQ1_M"},  {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"}, {34, "TQ1_0"},
    {35, "TQ2_0"},  {39, "MXFP4"},
}};

}  // namespace

std::optional<GgufValueType> gguf_value_type(std::uint32_t number) {
  if (number >= kValueTypes.size()) return std::nullopt;
  return static_cast<GgufValueType>(number);
}

std::string_view to_string(GgufValueType type) {
  return kValueTypes[static_cast<std::size_t>(type)].name;
}

std::size_t value_bytes(GgufValueType type) {
  return kValueTypes[static_cast<std::size_t>(type)].bytes;
}

const GgufTensorTypeInfo* find_gguf_tensor_type(std::uint32_t number) {
  for (const GgufTensorTypeInfo& info : kTensorTypes) {
    if (static_cast<std::uint32_t>(info.type) == number) return &info;
  }
  return nullptr;
}

const GgufTensorTypeInfo& info_of(GgufTensorType type) {
  const GgufTensorTypeInfo* info = find_gguf_tensor_type(static_cast<std::uint32_t>(type));
  OUTRIDER_CHECK(info != nullptr);
  return *info;
}

std::string foreign_tensor_type_name(std::uint32_t number) {
  for (const auto& [known, name] : kForeignTypes) {
    if (known == number) return name;
  }
  return "number " + std::to_string(number);
}

std::string supported_tensor_types() {
  std::string names;
  for (const GgufTensorTypeInfo& info : kTensorTypes) {
    names += std::string(names.empty() ? "" : ", ") + info.name;
  }
  return names;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/gguf_metadata.h"

#include <bit>
#include <limits>
#include <optional>

#include "common/engine/gguf/gguf_cursor.h"

namespace outrider {
namespace {

// Nothing for another type, or a number that std::int64_t does not hold.
std::optional<std::int64_t> as_integer(GgufValueType type, std::string_view bytes) {
  const std::uint64_t bits = little_endian(bytes, value_bytes(type));
  switch (type) {
    case GgufValueType::kInt8:
      return static_cast<std::int8_t>(bits);
    case GgufValueType::kInt16:
      return static_cast<std::int16_t>(bits);
    case GgufValueType::kInt32:
      return static_cast<std::int32_t>(bits);
    case GgufValueType::kInt64:
      return static_cast<std::int64_t>(bits);
    case GgufValueType::kUint8:
    case GgufValueType::kUint16:
    case GgufValueType::kUint32:
    case GgufValueType::kUint64:
      if (bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) break;
      return static_cast<std::int64_t>(bits);
    default:
      break;
  }
  return std::nullopt;
}

std::optional<double> as_real(GgufValueType type, std::string_view bytes) {
  if (type == GgufValueType::kFloat32) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(bytes, 4)));
  }
  if (type == GgufValueType::kFloat64) return std::bit_cast<double>(little_endian(bytes, 8));
  const std::optional<std::int64_t> integer = as_integer(type, bytes);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

// A string with its length before it.
std::string_view take_text(std::string_view& bytes) {
  const std::uint64_t size = little_endian(bytes, 8);
  const std::string_view text = bytes.substr(8, size);
  bytes.remove_prefix(8 + size);
  return text;
}

void append(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void append(std::string& out, std::string_view text) {
  append(out, text.size(), 8);
  out += text;
}

}  // namespace

std::string GgufValue::type_text() const {
  return (is_array ? "an array of " : "") + std::string(to_string(type));
}

bool GgufMetadata::add(std::string_view key, const GgufValue& value) {
  return values_.emplace(key, value).second;
}

Status GgufMetadata::wrong_type(std::string_view key, const GgufValue& value,
                                const char* wanted) const {
  return data_loss(what_ + ": " + std::string(key) + " is of type " + value.type_text() +
                   ", must be " + wanted);
}

Result<const GgufValue*> GgufMetadata::find(std::string_view key, bool array) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return not_found(what_ + ": " + std::string(key) + " is missing");
  if (found->second.is_array != array) {
    return wrong_type(key, found->second, array ? "an array" : "one value");
  }
  return &found->second;
}

Result<std::string_view> GgufMetadata::text(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, find(key, false));
  if (value->type != GgufValueType::kString) return wrong_type(key, *value, "a string");
  std::string_view bytes = value->bytes;
  return take_text(bytes);
}

Result<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, find(key, false));
  const std::optional<std::int64_t> number = as_integer(value->type, value->bytes);
  if (!number) return wrong_type(key, *value, "an integer below 2^63");
  return *number;
}

Result<double> GgufMetadata::real(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, find(key, false));
  const std::optional<double> number = as_real(value->type, value->bytes);
  if (!number) return wrong_type(key, *value, "a number");
  return *number;
}

Result<bool> GgufMetadata::flag(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, find(key, false));
  if (value->type != GgufValueType::kBool) return wrong_type(key, *value, "a bool");
  return value->bytes[0] != 0;
}

Result<std::vector<std::string_view>> GgufMetadata::texts(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, find(key, true));
  if (value->type != GgufValueType::kString) return wrong_type(key, *value, "an array of string");
  std::vector<std::string_view> texts;
  texts.reserve(value->count);
  for (std::string_view bytes = value->bytes; texts.size() < value->count;) {
    texts.push_back(take_text(bytes));
  }
  return texts;
}

Result<std::vector<std::int64_t>> GgufMetadata::integers(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, find(key, true));
  const std::size_t size = value_bytes(value->type);
  std::vector<std::int64_t> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number = as_integer(value->type, value->bytes.substr(i * size));
    if (!number) return wrong_type(key, *value, "an array of integers below 2^63");
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<float>> GgufMetadata::reals(std::string_view key) const {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufValue* value, find(key, true));
  const std::size_t size = value_bytes(value->type);
  std::vector<float> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number = as_real(value->type, value->bytes.substr(i * size));
    if (!number) return wrong_type(key, *value, "an array of numbers");
    numbers.push_back(static_cast<float>(*number));
  }
  return numbers;
}

std::string write_gguf(const GgufMetadata& metadata) {
  constexpr std::uint64_t kVersion = 3, kNoTensors = 0;
  std::string out = "GGUF";
  append(out, kVersion, 4);
  append(out, kNoTensors, 8);
  append(out, metadata.values().size(), 8);
  for (const auto& [key, value] : metadata.values()) {
    append(out, key);
    const auto type = static_cast<std::uint64_t>(value.type);
    if (value.is_array) {
      append(out, static_cast<std::uint64_t>(GgufValueType::kArray), 4);
      append(out, type, 4);
      append(out, value.count, 8);
    } else {
      append(out, type, 4);
    }
    out += value.bytes;
  }
  return out;
}

}  // namespace outrider

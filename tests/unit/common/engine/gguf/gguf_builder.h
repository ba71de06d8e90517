// Builds the bytes of GGUF files, valid and invalid, for tests. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/engine/gguf/gguf_types.h"

namespace outrider {

// The bytes of a plain value, little-endian.
template <typename T>
std::string gguf_bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string gguf_text(std::string_view text) {
  return gguf_bytes<std::uint64_t>(text.size()) + std::string(text);
}

class GgufBuilder final {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // written as a key unless it is the default

  template <typename T>
  GgufBuilder& value(std::string_view key, GgufValueType type, T value) {
    return raw_key(key, type, gguf_bytes(value));
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t number) {
    return value(key, GgufValueType::kUint32, number);
  }
  GgufBuilder& f32(std::string_view key, float number) {
    return value(key, GgufValueType::kFloat32, number);
  }
  GgufBuilder& flag(std::string_view key, bool on) {
    return value(key, GgufValueType::kBool, static_cast<std::uint8_t>(on));
  }
  GgufBuilder& text(std::string_view key, std::string_view value) {
    return raw_key(key, GgufValueType::kString, gguf_text(value));
  }
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes;
    for (const std::string& value : values) bytes += gguf_text(value);
    return raw_array(key, GgufValueType::kString, values.size(), bytes);
  }
  template <typename T>
  GgufBuilder& numbers(std::string_view key, GgufValueType type, const std::vector<T>& values) {
    std::string bytes;
    for (const T value : values) bytes += gguf_bytes(value);
    return raw_array(key, type, values.size(), bytes);
  }
  GgufBuilder& raw_key(std::string_view key, GgufValueType type, std::string_view bytes) {
    keys_ += gguf_text(key) + gguf_bytes(static_cast<std::uint32_t>(type)) + std::string(bytes);
    ++num_keys_;
    return *this;
  }
  GgufBuilder& raw_array(std::string_view key, GgufValueType type, std::uint64_t count,
                         std::string_view bytes) {
    return raw_key(
        key, GgufValueType::kArray,
        gguf_bytes(static_cast<std::uint32_t>(type)) + gguf_bytes(count) + std::string(bytes));
  }

  // shape: row-major. The data follows that of the previous tensor, padded.
  GgufBuilder& tensor(std::string_view name, GgufTensorType type,
                      const std::vector<std::int64_t>& shape, std::string_view bytes) {
    raw_tensor(name, static_cast<std::uint32_t>(type), shape, data_.size());
    data_ += bytes;
    data_.append((alignment - data_.size() % alignment) % alignment, '\0');
    return *this;
  }
  // Only the entry in the header.
  GgufBuilder& raw_tensor(std::string_view name, std::uint32_t type,
                          const std::vector<std::int64_t>& shape, std::uint64_t offset) {
    tensors_ += gguf_text(name) + gguf_bytes(static_cast<std::uint32_t>(shape.size()));
    for (auto size = shape.rbegin(); size != shape.rend(); ++size) tensors_ += gguf_bytes(*size);
    tensors_ += gguf_bytes(type) + gguf_bytes(offset);
    ++num_tensors_;
    return *this;
  }

  std::string build() const {
    std::string keys = keys_;
    std::uint64_t num_keys = num_keys_;
    if (alignment != 32) {
      keys += gguf_text("general.alignment") +
              gguf_bytes(static_cast<std::uint32_t>(GgufValueType::kUint32)) +
              gguf_bytes(static_cast<std::uint32_t>(alignment));
      ++num_keys;
    }
    std::string file = "GGUF" + gguf_bytes(version) + gguf_bytes(num_tensors_) +
                       gguf_bytes(num_keys) + keys + tensors_;
    file.append((alignment - file.size() % alignment) % alignment, '\0');
    return file + data_;
  }

 private:
  std::string keys_;
  std::string tensors_;
  std::string data_;
  std::uint64_t num_keys_ = 0;
  std::uint64_t num_tensors_ = 0;
};

}  // namespace outrider

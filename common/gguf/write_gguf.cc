// SPDX-License-Identifier: Apache-2.0
#include "common/gguf/write_gguf.h"

#include <cstdint>
#include <string_view>

namespace outrider {
namespace {

void append(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void append(std::string& out, std::string_view text) {
  append(out, text.size(), 8);
  out += text;
}

}  // namespace

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

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/gguf_cursor.h"

namespace outrider {

std::uint64_t little_endian(std::string_view bytes, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

void GgufCursor::fail(const std::string& why) {
  if (status_.ok()) status_ = data_loss(what_ + ": " + place_ + why);
}

std::string_view GgufCursor::skip(std::uint64_t count, const char* field) {
  if (!status_.ok()) return {};
  if (count > remaining()) {
    fail(std::string(field) + " of " + std::to_string(count) + " bytes at byte " +
         std::to_string(position_) + " of " + std::to_string(bytes_.size()) +
         ": cut short or damaged, download it again");
    return {};
  }
  const char* begin = reinterpret_cast<const char*>(bytes_.data()) + position_;
  position_ += count;
  return {begin, static_cast<std::size_t>(count)};
}

std::uint64_t GgufCursor::number(std::size_t size, const char* field) {
  const std::string_view found = skip(size, field);
  return found.empty() ? 0 : little_endian(found, size);
}

std::string_view GgufCursor::text(const char* field) {
  const std::uint64_t size = u64(field);
  return skip(size, field);
}

}  // namespace outrider

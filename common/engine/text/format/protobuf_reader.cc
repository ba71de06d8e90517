// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/protobuf_reader.h"

namespace outrider {

bool ProtobufReader::read_varint(std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return false;
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool ProtobufReader::take(std::uint64_t count, std::string_view& out) {
  if (count > rest_.size()) return false;
  out = rest_.substr(0, static_cast<std::size_t>(count));
  rest_.remove_prefix(static_cast<std::size_t>(count));
  return true;
}

bool ProtobufReader::read_value(std::uint32_t wire_type) {
  std::string_view raw;
  switch (wire_type) {
    case 0:
      return read_varint(varint_);
    case 1:
      return take(8, raw);
    case 2: {
      std::uint64_t length = 0;
      return read_varint(length) && take(length, bytes_);
    }
    case 5: {
      if (!take(4, raw)) return false;
      for (std::size_t i = 0; i < 4; ++i) {
        fixed32_ |= std::uint32_t{static_cast<std::uint8_t>(raw[i])} << (8 * i);
      }
      return true;
    }
    default:  // groups, which are obsolete, and undefined types
      return false;
  }
}

bool ProtobufReader::next() {
  if (!ok_ || rest_.empty()) return false;
  varint_ = 0;
  fixed32_ = 0;
  bytes_ = {};
  std::uint64_t key = 0;
  ok_ = read_varint(key) && (key >> 3) != 0 && (key >> 3) < (1u << 29) &&
        read_value(static_cast<std::uint32_t>(key & 7));
  field_ = static_cast<std::uint32_t>(key >> 3);
  return ok_;
}

}  // namespace outrider

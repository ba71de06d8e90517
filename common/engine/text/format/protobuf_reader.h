// Reads the wire format of Protocol Buffers, for one small untrusted file. The protobuf library is
// not used because it would clash with gRPC's copy.
//
//   ProtobufReader reader(bytes);
//   while (reader.next()) { if (reader.field() == 1) use(reader.bytes()); }
//   if (!reader.ok()) ...
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace outrider {

class ProtobufReader final {
 public:
  explicit ProtobufReader(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field. False at the end, and always after damage: then ok() is false.
  bool next();
  bool ok() const { return ok_; }

  std::uint32_t field() const { return field_; }
  // The value if the field is of that wire type, else 0 or "".
  std::uint64_t varint() const { return varint_; }
  float float32() const { return std::bit_cast<float>(fixed32_); }
  std::string_view bytes() const { return bytes_; }

 private:
  bool read_varint(std::uint64_t& value);
  bool take(std::uint64_t count, std::string_view& out);
  bool read_value(std::uint32_t wire_type);

  std::string_view rest_;
  bool ok_ = true;
  std::uint32_t field_ = 0;
  std::uint64_t varint_ = 0;
  std::uint32_t fixed32_ = 0;
  std::string_view bytes_;
};

}  // namespace outrider

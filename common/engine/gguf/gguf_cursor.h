// Reads little-endian values one after another from untrusted bytes.
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

// After a failure every call returns 0 or nothing, so that a caller can check status() once at the
// end. Views point into the bytes.
class GgufCursor final {
 public:
  // `what` names the file in errors.
  GgufCursor(std::span<const std::byte> bytes, const std::string& what)
      : bytes_(bytes), what_(what) {}

  std::uint32_t u32(const char* field) { return static_cast<std::uint32_t>(number(4, field)); }
  std::uint64_t u64(const char* field) { return number(8, field); }
  // The length as a 64-bit number, then that many bytes.
  std::string_view text(const char* field);
  std::string_view skip(std::uint64_t count, const char* field);

  // Sets kDataLoss; keeps the first error.
  void fail(const std::string& why);
  // Text that precedes later error messages, after the file's name.
  void set_place(std::string place) { place_ = std::move(place); }

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }
  const Status& status() const { return status_; }

 private:
  std::uint64_t number(std::size_t size, const char* field);

  std::span<const std::byte> bytes_;
  const std::string& what_;
  std::string place_;
  std::uint64_t position_ = 0;
  Status status_;
};

// The first `size` bytes, least significant first; size <= 8 and <= bytes.size().
std::uint64_t little_endian(std::string_view bytes, std::size_t size);

}  // namespace outrider

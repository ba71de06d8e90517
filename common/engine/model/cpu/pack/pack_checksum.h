// The checksum of an extent or an index. It detects damage, not malice.
//
//   PackChecksum sum(bytes.size());
//   sum.add(first), sum.add(second) ..      // each but the last a multiple of kPart bytes
//   sum.value()
//
// Thread rule: a value; check_extent() from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/engine/model/cpu/pack/pack_index.h"

namespace outrider {

class PackChecksum final {
 public:
  static constexpr std::size_t kPart = 32;

  // bytes: the total that will be added.
  explicit PackChecksum(std::uint64_t bytes) : sums_{1, 2, 3, bytes} {}

  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  std::array<std::uint64_t, 4>
      sums_;                // four independent chains, so that memory bandwidth is the limit
  std::uint64_t rest_ = 0;  // bytes after the last whole part
};

std::uint64_t pack_checksum(std::span<const std::byte> bytes);

// Reads an extent of the file and compares its checksum. It does not use a mapping: touching an
// unreadable page would end the program. what: names file and extent in errors. DATA_LOSS for
// another checksum, and with the system's reason for a read error.
Status check_extent(const std::string& path, const PackExtent& extent, const std::string& what);

}  // namespace outrider

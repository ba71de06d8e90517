// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/row_book.h"

#include <bit>

namespace outrider {

std::uint64_t hash_logits(std::span<const float> logits) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const float value : logits) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  }
  return hash;
}

void RowBook::record(const std::string& row, const std::string& way, std::uint64_t hash) {
  const auto [entry, is_new] = hashes_.try_emplace(row, hash);
  if (is_new) return;
  ++compared_;
  if (entry->second == hash) return;
  ++mismatches_;
  if (mismatched_.size() < 10) mismatched_.push_back(row + ", " + way);
}

}  // namespace outrider

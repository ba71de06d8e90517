// SPDX-License-Identifier: Apache-2.0
#include "common/protocol/prefix_hash.h"

#include <cstdint>

#include "common/base/sha256.h"

namespace outrider {

std::string prefix_hash(std::span<const TokenId> ids) {
  std::string bytes;
  bytes.reserve(4 * ids.size());
  for (const TokenId id : ids) {
    auto rest = static_cast<std::uint32_t>(id);
    for (int i = 0; i < 4; ++i, rest >>= 8) bytes.push_back(static_cast<char>(rest & 0xff));
  }
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}

}  // namespace outrider

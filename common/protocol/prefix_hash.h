// The name of a prefix, by which a reconnect spares sending it again.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "common/base/types.h"

namespace outrider {

// Hex SHA-256 of the ids, 4 bytes each, little endian.
std::string prefix_hash(std::span<const TokenId> ids);

}  // namespace outrider

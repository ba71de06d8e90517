// Sizes in bytes as people write them: 12, 500M, 3G.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace outrider {

// A number with an optional suffix K, M or G (of 1024). Nothing: it is none.
std::optional<std::int64_t> parse_byte_size(std::string_view text);

}  // namespace outrider

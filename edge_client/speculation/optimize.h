// What a user wants of speculation (--optimize).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/enum_names.h"

namespace outrider {

enum class Optimize : std::uint8_t {
  kLatency,   // the least time per token
  kCost,      // the fewest target passes per token: every pass waits for a whole round
  kBalanced,  // a pass costs half of its own time once more
};

template <>
inline constexpr auto enum_names<Optimize> =
    std::to_array<EnumName<Optimize>>({{Optimize::kLatency, "latency"},
                                       {Optimize::kCost, "cost"},
                                       {Optimize::kBalanced, "balanced"}});

}  // namespace outrider

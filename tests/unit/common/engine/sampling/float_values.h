// The floats that a row of logits should not hold, and must survive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

namespace outrider {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace outrider

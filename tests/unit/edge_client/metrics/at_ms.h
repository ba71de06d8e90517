// Moments of a test's own time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/clock.h"

namespace outrider {

inline TimePoint at_ms(double ms) {
  return TimePoint{} + from_ms(ms);
}

}  // namespace outrider

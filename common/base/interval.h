// A closed interval of numbers. Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace outrider {

struct Interval {
  double low = 0;
  double high = 0;
};

}  // namespace outrider

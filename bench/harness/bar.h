// A bar: what a measured value must reach for a claim to stand.
//
// It is held on the end of the value's confidence interval that is closer to failing: a claim that
// noise could have made is not met.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench/harness/statistics.h"
#include "common/base/json.h"

namespace outrider {

struct Bar {
  enum class Side : std::uint8_t { kAtLeast, kAtMost, kWithin };  // kWithin: of ±limit

  std::string name;
  Estimate value;
  double limit = 0;
  Side side = Side::kAtLeast;

  // The end of the interval that is closer to failing; the value itself without an interval.
  double near_end() const;
  bool met() const;

  // One line for people, without its end.
  std::string to_string() const;
};

Json to_json(const Estimate& estimate);
Json to_json(std::span<const Bar> bars);

}  // namespace outrider

// The largest entries of a row in a fixed order: larger value first, lower id first among equals.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// A value and its id in one number that sorts as the fixed order does, the best largest.
using SelectKey = std::uint64_t;

TokenId token_of(SelectKey key);
float value_of(SelectKey key);

// Keeps the `count` best of what is offered, in `keys`, which must outlive it and is emptied.
class BestKeys final {
 public:
  BestKeys(std::size_t count, std::vector<SelectKey>& keys);

  // A value below this will not be among the best. It rises when twice `count` values are held,
  // and in settle().
  float bar() const { return bar_; }

  // value: neither -infinity nor NaN; +infinity counts as the largest finite f32.
  void offer(float value, std::size_t id);

  // Drops what is not among the best so far. Linear in what is held.
  void settle();

  // Leaves the best in `keys`, the best first.
  void sort();

 private:
  std::size_t count_;
  std::vector<SelectKey>& keys_;
  float bar_;
};

// Leaves the `count` best of `values` in `keys`, best first; ids are places in `values`. Entries
// of -infinity and NaN never count, so there may be fewer; +infinity counts as the largest finite
// f32. Linear in values.size() plus
// count log(count); `keys` keeps its memory from call to call.
void select_best(std::span<const float> values, std::size_t count, std::vector<SelectKey>& keys);

}  // namespace outrider

// Keeps what a verifier's passes take by their rows, with and without early exits, of recent ones.
//
// Thread rule: a value, owned by the scheduler. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "common/base/clock.h"
#include "common/protocol/pass_costs.h"

namespace outrider {

class PassCostBook final {
 public:
  // A pass that verified; prefills and passes of more rows than the book has are not counted.
  void add(std::size_t rows, bool exits, Duration took);

  // Of the numbers of rows that were seen. A pass whose exits nobody ever did without counts as
  // one without.
  PassCosts costs() const;

 private:
  // Passes of up to so many rows are alike.
  static constexpr std::array<std::size_t, 12> kBuckets = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64};

  struct Times {
    double rows = 0;  // decayed means
    double seconds = 0;
    double weight = 0;

    void add(std::size_t one_rows, Duration took);
  };

  std::array<Times, kBuckets.size()> plain_{};
  std::array<Times, kBuckets.size()> with_exits_{};
};

}  // namespace outrider

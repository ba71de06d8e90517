// The nucleus of a row (top_p): the smallest set of likeliest tokens whose weights reach a share of
// all. Weights count as whole numbers (weight_units() of noise.h), so neither the order of a sum
// nor the way in which the set is found can change it.
//
// Few tokens are found by sorting the best; many by the place of the last value among all values,
// in three passes that take a third of its bits each. Linear in the row.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/sampling/select.h"

namespace outrider {

class Nucleus final {
 public:
  // Leaves the places of the nucleus in rising order. scores: at most 0, the largest is 0, ties go
  // to the lower place; weights: e^score, as many, padded with zeros to a multiple of kNoiseGroup.
  // top_p < 1; at 0 the likeliest token is left. Valid until the next call.
  std::span<const std::uint32_t> find(std::span<const float> scores, std::span<const float> weights,
                                      float top_p);

 private:
  bool find_among_best(std::span<const float> scores, std::span<const float> weights,
                       std::uint64_t wanted);
  void find_among_all(std::span<const float> scores, std::span<const float> weights,
                      std::uint64_t wanted);

  // Kept from call to call, so that a decoding step allocates nothing.
  std::vector<SelectKey> best_;
  std::vector<std::uint64_t> sums_;
  std::vector<std::uint32_t> places_;
};

}  // namespace outrider

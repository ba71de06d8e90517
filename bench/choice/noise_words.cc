// SPDX-License-Identifier: Apache-2.0
#include "bench/choice/noise_words.h"

#include <algorithm>
#include <limits>

#include "common/base/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/choice/noise_words.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/sampling/noise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

NoiseOfWords noise_of_words(std::uint32_t begin, std::uint64_t count) {
  const Floats d;
  const Words dw;
  FloatVector largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  FloatVector slack = hn::Set(d, std::numeric_limits<float>::infinity());
  FloatVector before = slack;  // the bounds of the vector before, whose words are smaller
  auto rises = hn::Lt(slack, largest);
  for (std::uint64_t i = 0; i < count; i += hn::Lanes(d)) {
    const WordVector words = hn::Iota(dw, begin + static_cast<std::uint32_t>(i));
    const FloatVector noise = gumbel(words);
    const FloatVector bound = noise_bound(words);
    largest = hn::Max(largest, noise);
    slack = hn::Min(slack, hn::Sub(bound, noise));
    rises = hn::Or(rises, hn::Gt(bound, before));
    before = bound;
  }
  return {hn::GetLane(hn::MaxOfLanes(d, largest)), hn::GetLane(hn::MinOfLanes(d, slack)),
          !hn::AllFalse(d, rises)};
}

#endif
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

NoiseOfWords noise_of_words(std::uint32_t begin, std::uint64_t count) {
  return OUTRIDER_VECTOR_FUNCTION(best_vector_target(), noise_of_words)(begin, count);
}

NoiseOfWords noise_of_end_words() {
  constexpr std::uint32_t kWords = 1 << 24;
  const NoiseOfWords first = noise_of_words(0, kWords);
  const NoiseOfWords last = noise_of_words(0u - kWords, kWords);
  return {std::max(first.largest, last.largest), std::min(first.least_slack, last.least_slack),
          first.rises || last.rises};
}

bool NoiseOfWords::bounded() const {
  return largest <= kLargestNoise && least_slack >= 0 && !rises;
}

}  // namespace outrider
#endif

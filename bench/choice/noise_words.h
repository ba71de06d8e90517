// The noise of given random words against its bounds (common/engine/sampling/noise-inl.h).
//
// Thread rule: pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace outrider {

struct NoiseOfWords {
  float largest = 0;      // noise
  float least_slack = 0;  // what a word's bound exceeds its noise by
  bool rises = false;     // some bound is larger than that of a smaller word

  // Nothing here contradicts what choose() leaves out.
  bool bounded() const;
};

// The noise of the words [begin, begin + count). count: a multiple of 16.
NoiseOfWords noise_of_words(std::uint32_t begin, std::uint64_t count);

// The noise of the first and the last 2^24 words, where noise is extreme.
NoiseOfWords noise_of_end_words();

}  // namespace outrider

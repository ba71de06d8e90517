// Guesses for the next token by the law of choice, how sure the guessing model is, and how often it
// is right.
//
// Thread rule: pure functions and values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/sampling/sampling.h"

namespace outrider {

// A candidate for the next token.
struct Guess {
  TokenId token = 0;
  float confidence = 0;  // 0..1
};

// Guesses for the token at `position` from one row of logits [vocab], best first by perturbed
// score. Confidence: the softmax at T = 0; at T > 0 the logistic of the perturbed gap to the best
// other candidate, so the first is above 1/2 and the others below. None of a row with no entry
// above -infinity.
std::vector<Guess> guess_next(std::span<const float> logits, const SamplingParams& sampling,
                              std::uint64_t seed, Position position, int fan_out);

// The worth of the draft's confidence: learns, from what became text, how often a guess of this
// rank and this confidence was right. A draft that is too sure of itself would send rounds that
// die; one that is too modest would let the link idle.
//
//   right(rank, confidence) = (seen right + n * confidence) / (seen + n)        n: kPrior
//
// so without experience the draft's confidence counts, and what is long past counts less and less.
class GuessCalibration final {
 public:
  // rank: 0 for the best guess of its position. confidence: the draft's own, 0..1.
  float right(std::size_t rank, float confidence) const;

  // The token at the position of such a guess became known.
  void observe(std::size_t rank, float confidence, bool was_right);

 private:
  static constexpr std::size_t kRanks = 4;  // the last one is of all later ranks
  static constexpr std::size_t kBins = 8;
  struct Bin {
    double seen = 0;
    double right = 0;
  };

  static std::size_t place(std::size_t rank, float confidence);

  std::array<Bin, kRanks * kBins> bins_;
};

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/guess.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// Softmax denominator relative to `top`, the largest logit; NaN and -infinity count as nothing.
double sum_of_exponentials(std::span<const float> logits, float top) {
  double sum = 0;
  for (const float logit : logits) {
    if (logit > top - 30.0f) sum += std::exp(logit - top);  // the rest is below 1e-13 of it
  }
  return sum;
}

constexpr double kPrior = 6;    // guesses for which the draft's own confidence counts
constexpr double kKeep = 0.98;  // of the experience of a bin, per guess seen: about 50 count

}  // namespace

std::vector<Guess> guess_next(std::span<const float> logits, const SamplingParams& sampling,
                              std::uint64_t seed, Position position, int fan_out) {
  const std::vector<Candidate> best = rank(logits, sampling, seed, position, fan_out + 1);
  std::vector<Guess> guesses;
  if (!best.empty() && std::isinf(best[0].score)) return guesses;
  const bool greedy = sampling.temperature == 0.0f;
  const double sum = greedy && !best.empty() ? sum_of_exponentials(logits, best[0].score) : 1;
  for (std::size_t i = 0; i < best.size() && i < static_cast<std::size_t>(fan_out); ++i) {
    double confidence = 1;
    if (greedy) {
      confidence = std::exp(best[i].score - best[0].score) / sum;
    } else if (best.size() > 1) {
      const float other = best[i == 0 ? 1 : 0].score;
      confidence = 1 / (1 + std::exp(static_cast<double>(other) - best[i].score));
    }
    guesses.push_back({best[i].token, static_cast<float>(confidence)});
  }
  return guesses;
}

std::size_t GuessCalibration::place(std::size_t rank, float confidence) {
  const float clean = confidence > 0 ? std::min(confidence, 1.0f) : 0.0f;  // NaN: 0
  const auto bin = static_cast<std::size_t>(clean * static_cast<float>(kBins));
  return std::min(rank, kRanks - 1) * kBins + std::min(bin, kBins - 1);
}

float GuessCalibration::right(std::size_t rank, float confidence) const {
  const Bin& bin = bins_[place(rank, confidence)];
  const double clean = confidence > 0 ? std::min(confidence, 1.0f) : 0.0f;
  return static_cast<float>((bin.right + kPrior * clean) / (bin.seen + kPrior));
}

void GuessCalibration::observe(std::size_t rank, float confidence, bool was_right) {
  Bin& bin = bins_[place(rank, confidence)];
  bin.seen = bin.seen * kKeep + 1;
  bin.right = bin.right * kKeep + (was_right ? 1 : 0);
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/sampling/guess_calibration.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr double kPrior = 6;    // guesses for which the draft's own confidence counts
constexpr double kKeep = 0.98;  // of the experience of a bin, per guess seen: about 50 count

}  // namespace

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

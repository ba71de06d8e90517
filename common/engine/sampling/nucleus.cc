// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/nucleus.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/engine/sampling/noise.h"

namespace outrider {
namespace {

// Most of the probability mostly sits on so few tokens.
constexpr std::size_t kSorted = 64;

// The bits of a depth that a pass tells apart: 31 in all.
struct DepthPart {
  int shift;
  int bits;
};
constexpr DepthPart kParts[] = {{20, 11}, {10, 10}, {0, 10}};

// The bits of -score: a number that is smaller for a larger score.
std::uint32_t depth_of(float score) {
  return std::bit_cast<std::uint32_t>(score) & 0x7fffffffu;
}

}  // namespace

std::span<const std::uint32_t> Nucleus::find(std::span<const float> scores,
                                             std::span<const float> weights, float top_p) {
  const auto total = static_cast<double>(sum_weight_units(weights));
  const auto share = static_cast<std::uint64_t>(std::ceil(double{top_p} * total));
  const std::uint64_t wanted = std::max<std::uint64_t>(share, 1);  // one token, whatever top_p
  places_.clear();
  if (!find_among_best(scores, weights, wanted)) find_among_all(scores, weights, wanted);
  return places_;
}

bool Nucleus::find_among_best(std::span<const float> scores, std::span<const float> weights,
                              std::uint64_t wanted) {
  select_best(scores, kSorted, best_);
  std::uint64_t sum = 0;
  for (auto at = best_.begin(); at != best_.end() && sum < wanted; ++at) {
    places_.push_back(static_cast<std::uint32_t>(token_of(*at)));
    sum += weight_units(weights[places_.back()]);
  }
  if (sum < wanted) {
    places_.clear();
    return false;
  }
  std::sort(places_.begin(), places_.end());
  return true;
}

void Nucleus::find_among_all(std::span<const float> scores, std::span<const float> weights,
                             std::uint64_t wanted) {
  // The depth at which the sum of all that is likelier, and of itself, reaches what is wanted.
  std::uint32_t border = 0;
  std::uint64_t sum = 0;  // of what is likelier
  for (const DepthPart part : kParts) {
    sums_.assign(std::size_t{1} << part.bits, 0);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::uint32_t depth = depth_of(scores[i]);
      if (depth >> part.shift >> part.bits != border) continue;
      sums_[depth >> part.shift & (sums_.size() - 1)] += weight_units(weights[i]);
    }
    std::uint32_t bucket = 0;
    while (sum + sums_[bucket] < wanted) sum += sums_[bucket++];
    border = border << part.bits | bucket;
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::uint32_t depth = depth_of(scores[i]);
    if (depth > border || (depth == border && sum >= wanted)) continue;
    if (depth == border) sum += weight_units(weights[i]);
    places_.push_back(static_cast<std::uint32_t>(i));
  }
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/acceptance_by_depth.h"

#include <algorithm>

namespace outrider {
namespace {

// What acceptance is taken for before it is known: this chance, with the weight of so many tries.
constexpr double kPriorChance = 0.65;
constexpr double kPriorTries = 3;

constexpr double kKeepTries = 0.96;  // of the older tries' weight, per try: about 25 count

}  // namespace

void AcceptanceByDepth::record(std::size_t length, std::size_t accepted) {
  for (std::size_t i = 0; i < std::min({length, accepted + 1, kMaxDepth}); ++i) {
    tried_[i] = tried_[i] * kKeepTries + 1;
    stood_[i] = stood_[i] * kKeepTries + (i < accepted ? 1 : 0);
  }
}

std::size_t AcceptanceByDepth::depth() const {
  std::size_t depth = kMaxDepth;
  while (depth > 0 && tried_[depth - 1] == 0) --depth;
  return depth;
}

std::vector<double> AcceptanceByDepth::tried() const {
  return {tried_.begin(), tried_.begin() + static_cast<std::ptrdiff_t>(depth())};
}

std::vector<double> AcceptanceByDepth::stood() const {
  return {stood_.begin(), stood_.begin() + static_cast<std::ptrdiff_t>(depth())};
}

void AcceptanceByDepth::restore(std::span<const double> tried, std::span<const double> stood) {
  const std::size_t depth = std::min({tried.size(), stood.size(), kMaxDepth});
  tried_.fill(0);
  stood_.fill(0);
  std::copy_n(tried.begin(), depth, tried_.begin());
  std::copy_n(stood.begin(), depth, stood_.begin());
}

double AcceptanceByDepth::of(std::size_t k) const {
  double chance = 1;
  for (std::size_t i = 0; i < std::min(k, kMaxDepth); ++i) {
    chance *= (stood_[i] + kPriorTries * kPriorChance) / (tried_[i] + kPriorTries);
  }
  return chance;
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "common/verify/keep_branches.h"

#include <algorithm>
#include <cstddef>

namespace outrider {
namespace {

constexpr int kKeptAtRoot = 2;
constexpr std::size_t kMinKeptOneIn = 4;  // of so many nodes at least one is left

// The best child that is not kept yet; -1: none.
std::int32_t best_child(std::span<const BranchNode> nodes, std::int32_t parent,
                        const std::vector<std::uint8_t>& skip) {
  std::int32_t best = -1;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].parent != parent || skip[i] != 0) continue;
    if (best < 0 || nodes[i].score > nodes[static_cast<std::size_t>(best)].score) {
      best = static_cast<std::int32_t>(i);
    }
  }
  return best;
}

}  // namespace

std::vector<std::uint8_t> keep_branches(std::span<const BranchNode> nodes, double threshold) {
  std::vector<std::uint8_t> keep(nodes.size(), 0);
  const std::vector<std::uint8_t> nobody(nodes.size(), 0);
  for (std::int32_t at = best_child(nodes, -1, nobody); at >= 0;
       at = best_child(nodes, at, nobody)) {
    keep[static_cast<std::size_t>(at)] = 1;
  }
  for (int kept = 1; kept < kKeptAtRoot; ++kept) {
    const std::int32_t next = best_child(nodes, -1, keep);
    if (next >= 0) keep[static_cast<std::size_t>(next)] = 1;
  }
  std::vector<double> chances(nodes.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::int32_t parent = nodes[i].parent;
    const double above = parent < 0 ? 1 : chances[static_cast<std::size_t>(parent)];
    chances[i] = above * nodes[i].score;
    if (chances[i] >= threshold) keep[i] = 1;
  }
  const auto left = static_cast<std::size_t>(std::ranges::count(keep, 1));
  if (left * kMinKeptOneIn < nodes.size()) std::ranges::fill(keep, 1);
  return keep;
}

}  // namespace outrider

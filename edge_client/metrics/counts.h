// Sums of counts that are kept by an index: a depth, a branch, an exit.
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrider {

// [index]
using Counts = std::vector<std::uint64_t>;

inline void add_counts(Counts& sums, const Counts& more) {
  if (sums.size() < more.size()) sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

// [depth - 1][branch]
using CountsByBranch = std::vector<Counts>;

inline void add_counts(CountsByBranch& sums, const CountsByBranch& more) {
  if (sums.size() < more.size()) sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) add_counts(sums[i], more[i]);
}

}  // namespace outrider

// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/predraft_stats.h"

namespace outrider {
namespace {

void add_at(std::vector<std::uint64_t>& counts, std::size_t index) {
  if (counts.size() <= index) counts.resize(index + 1);
  ++counts[index];
}

}  // namespace

void PredraftStats::count(const CacheLookup& found, std::size_t wanted) {
  ++verdicts;
  synced += found.sent ? 1 : 0;
  if (found.drafted >= wanted) {
    ++hits;
  } else if (found.drafted > 0) {
    ++partial_hits;
    add_at(partial_by_length, found.drafted - 1);
  } else if (found.in_step) {
    ++late_hits;
  } else {
    ++misses;
    return;
  }
  if (found.exit) {
    add_at(hits_by_exit, static_cast<std::size_t>(*found.exit));
  } else {
    ++hits_by_guess;
  }
}

}  // namespace outrider

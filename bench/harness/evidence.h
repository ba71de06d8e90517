// Whether a run is evidence for a claim about a network: whether its answers met what the network's
// profile holds (bench/link/path/link_condition.h), and whether there were enough of them.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "common/base/json.h"

namespace outrider {

// A ratio between two variants at a setting.
struct Claim {
  std::string name;  // of its bar
  const GridSetting& setting;
  std::string variant;
  std::string base;
};

// What the claim lacks, a sentence each; empty: nothing. Of a network that nobody emulates nothing
// is known, so nothing is asked of it.
std::vector<std::string> missing_evidence(const GridResult& result, const Claim& claim,
                                          std::size_t least_answers);

// What the setting's link can do, by name, and whether the cell's answers met it; null where no
// link of ours was between. For reports.
Json met_json(const GridSetting& setting, const std::optional<LinkCounts>& counts);

}  // namespace outrider

// From the cells of a grid to what is claimed: ratios between strategies, and bars.
//
// Means over paces are geometric: a ratio and its inverse weigh the same. Table 9 is another kind
// of place than tables 5 and 8, so no mean takes both, and neither mixes measured pass times with
// printed ones.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/paces/paces.h"
#include "bench/stats/statistics.h"
#include "common/base/json.h"

namespace outrider {

// Whether a run is evidence for a claim about a network: whether its answers met what the network's
// profile holds (emulation/path/link_condition.h), and whether there were enough of them.

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

// How many times faster `variant` is than `base` at a setting; nothing if either was not run, or
// gave a wrong text.
std::optional<Estimate> speedup_at(const GridResult& result, const std::string& setting,
                                   const std::string& variant, const std::string& base);

// The geometric mean over paces; nothing if it is not known at all of them.
std::optional<Estimate> mean_speedup(const GridResult& result, const std::vector<PaperPace>& paces,
                                     const std::string& variant, const std::string& base);

// The means over the paces of each kind, where it was run: "measured" and "printed" of tables 5
// and 8, "table9". Null where a strategy was not run.
Json summary_json(const GridResult& result, const std::vector<PaperPace>& paces);

// The bars that these paces and strategies let judge; each holds for its own kind of pace.
std::vector<Bar> judge(const GridResult& result, const std::vector<PaperPace>& paces);

// Everything that is known of a cell.
Json cell_json(const GridResult& result, const GridCell& cell);
Json cells_json(const GridResult& result);

// Rows for people, beside what the paper reports at the same pace.
std::string table(const GridResult& result, const std::vector<PaperPace>& paces);

}  // namespace outrider

// Computes ratios between strategies, and bars, from the cells of a grid.
//
// Means over paces are geometric, so a ratio and its inverse weigh the same. Table 9 is another
// kind of setting than tables 5 and 8, so no mean covers both; nor does a mean combine measured and
// printed pass times.
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

// Whether a run is evidence for a claim about a network: whether its answers met the impairments of
// the network's profile (emulation/path/link_condition.h), and whether there were enough of them.

// A ratio between two variants at a setting.
struct Claim {
  std::string name;  // of its bar
  const GridSetting& setting;
  std::string variant;
  std::string base;
};

// The evidence that the claim lacks, one sentence each; empty if it lacks none. For a real network
// nothing is required, because its impairments are unknown.
std::vector<std::string> missing_evidence(const GridResult& result, const Claim& claim,
                                          std::size_t least_answers);

// The impairments of the setting's link by name, and whether the cell's answers met each; null
// without a link of ours. For reports.
Json met_json(const GridSetting& setting, const std::optional<LinkCounts>& counts);

// The ratio of the speeds of `variant` and `base` at a setting; nothing if either did not run or
// gave a wrong text.
std::optional<Estimate> speedup_at(const GridResult& result, const std::string& setting,
                                   const std::string& variant, const std::string& base);

// The geometric mean over paces; nothing if a pace has none.
std::optional<Estimate> mean_speedup(const GridResult& result, const std::vector<PaperPace>& paces,
                                     const std::string& variant, const std::string& base);

// The means over the paces of each kind that ran: "measured" and "printed" of tables 5 and 8,
// "table9". Null for a strategy that did not run.
Json summary_json(const GridResult& result, const std::vector<PaperPace>& paces);

// The bars that these paces and strategies allow; each applies to its own kind of pace.
std::vector<Bar> judge(const GridResult& result, const std::vector<PaperPace>& paces);

// All figures of a cell.
Json cell_json(const GridResult& result, const GridCell& cell);
Json cells_json(const GridResult& result);

// Table rows for people, beside the paper's figures at the same pace.
std::string table(const GridResult& result, const std::vector<PaperPace>& paces);

}  // namespace outrider

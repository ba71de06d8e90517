// From the cells of a grid to what is claimed: ratios between strategies, and bars.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/harness/statistics.h"
#include "bench/paces/paces.h"
#include "common/base/json.h"

namespace outrider {

// Means over the settings; nothing where a strategy was not run.
struct Summary {
  std::optional<double> mirror_over_sd;
  std::optional<double> mirror_over_fsd;
  std::optional<double> fsd_over_sd;
  std::optional<double> min_mirror_over_ar;
};

struct Bar {
  std::string name;
  double value = 0;
  double least = 0;
  bool met() const { return value >= least; }
};

// How many times faster `variant` is than `base` at a setting; nothing if either was not run, or
// gave a wrong text.
std::optional<Estimate> speedup_at(const GridResult& result, const std::string& setting,
                                   const std::string& variant, const std::string& base);

Summary summarise(const GridResult& result, const std::vector<PaperPace>& paces);

// The bars that these paces, pass times and strategies let judge; each holds for its own PaceGroup.
std::vector<Bar> judge(const GridResult& result, const std::vector<PaperPace>& paces,
                       PassTimes times);

Json to_json(const Summary& summary);
Json to_json(const std::vector<Bar>& bars);
Json to_json(const Estimate& estimate);
// Everything that is known of a cell.
Json cell_json(const GridResult& result, const GridCell& cell);

// Rows for people, beside what the paper reports at the same pace.
std::string table(const GridResult& result, const std::vector<PaperPace>& paces);

}  // namespace outrider

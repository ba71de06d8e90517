// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/rival_bars.h"

#include <array>
#include <optional>
#include <string>

#include "bench/harness/statistics.h"
#include "bench/harness/summary.h"

namespace outrider {
namespace {

constexpr std::array kWaiting = {"sd-best", "fsd-best", "specedge-best", "ssd-best"};
constexpr double kAheadOfWaiting = 1.1;
constexpr double kNotBehind = 1.0;

// The fastest of those that ran; empty: one of them did not, or none answered.
std::string fastest_waiting(const GridResult& result, const std::string& setting) {
  std::string best;
  std::optional<double> least;
  for (const char* name : kWaiting) {
    const GridCell* cell = result.find(setting, name);
    if (cell == nullptr) return "";
    const std::optional<double> time = sum_of(cell->answers).tpot_ms();
    if (cell->mismatches > 0 || !time || (least && *time >= *least)) continue;
    least = time;
    best = name;
  }
  return best;
}

}  // namespace

std::vector<Bar> rival_bars(const GridResult& result, const std::vector<PaperPace>& paces) {
  std::vector<Bar> bars;
  for (const PaperPace& pace : paces) {
    if (pace.group != PaceGroup::kTables5And8 || pace.times != PassTimes::kMeasured) continue;
    const auto add = [&](const std::string& rival, const std::string& what, double limit) {
      if (rival.empty()) return;
      const std::optional<Estimate> ratio = speedup_at(result, pace.name, "mirror", rival);
      if (ratio) bars.push_back({"mirror over " + what + " at " + pace.name, *ratio, limit});
    };
    const std::string fastest = fastest_waiting(result, pace.name);
    add(fastest, fastest + ", the fastest rival that waits,", kAheadOfWaiting);
    add("picospec", "picospec", kNotBehind);
  }
  return bars;
}

}  // namespace outrider

// Who is compared in a run, each at its best, and the claims against other systems' ways.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/harness/grid_plan.h"
#include "bench/paces/paces.h"
#include "bench/stats/statistics.h"
#include "common/base/status.h"

namespace outrider {

// Who is compared in a run, by name: our strategies, those of other systems (docs/rivals.md), and
// what takes part without any link trick at all.
//
//   ar sd fsd mirror          the edge's strategies
//   specedge ssd picospec     other systems' ways, over the same link
//   sd-best fsd-best specedge-best ssd-best
//                             the fastest fixed draft length of 2 to 8, setting by setting
//   sd-cloud                  co-located: the draft runs beside the target, tokens come down
//   edge-only                 the draft alone, without a server: another text
//   mirror-plain mirror-exits mirror-fanout   mirror without exits and second guesses, with one of
//                             the two: what each adds

// In the order of the list above.
std::vector<std::string> contender_names();

// Their variants; "all" stands for those above up to edge-only. gammas: the draft lengths, each
// contender whose rounds have one stands once for each; empty: each has its own. INVALID_ARGUMENT
// for an unknown name, with the nearest one, and for one that stands twice.
Result<std::vector<GridVariant>> contenders(const std::vector<std::string>& names,
                                            const std::vector<int>& gammas);

// Of the variants that stand for one contender with several settings of its own, the fastest at
// each setting: rivals at their best.
//
// The best is taken on the answers that it is reported on, which flatters it a little: the choice
// errs on the rival's side.

// A plan and what came of it, with one variant in place of each group (GridVariant::best_of).
struct BestOfGroups {
  GridPlan plan;
  GridResult result;
};
BestOfGroups keep_best(const GridPlan& plan, GridResult result);

// That mirror at the paper's measured paces is well ahead of the fastest of those that wait for
// their verdicts, and never behind PicoSpec's way, which does not. Where the run has them; paces:
// of the settings, in their order.
std::vector<Bar> rival_bars(const GridResult& result, const std::vector<PaperPace>& paces);

}  // namespace outrider

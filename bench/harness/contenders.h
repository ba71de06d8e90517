// The contenders of a run, each at its best settings, and the claims that compare them.
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

// The contenders by name: our strategies, those of other systems (bench/lab/rivals.md), and
// decoding without the link.
//
//   ar sd fsd mirror          the edge's strategies
//   specedge ssd picospec     other systems' ways, over the same link
//   sd-best fsd-best specedge-best ssd-best
//                             the fastest fixed draft length of 2 to 8, setting by setting
//   sd-cloud                  co-located: the draft runs beside the target, tokens come down
//   edge-only                 the draft alone, without a server: another text
//   sd-cloud-best             the same at the best of 2 to 8, setting by setting
//   block-cloud               the same, and one step of the draft guesses the whole round
//   mirror-sd                 Mirror-SD: the draft runs beside the target on a device of its own,
//                             and drafts during a pass from what early exits name
//   edge-strong               draft and target on a strong edge, without a link; the best of 2 to 8
//   ar-server mirror-server   the server drafts too, over the link: for an edge that does not, and
//                             for one that does (docs/server-drafts.md)
//   ar-server-model ar-server-lookup   the same by one of its two sources
//   ar-server-alone mirror-server-alone   the same with a draft model on a device of its own, which
//                             drafts on while the target's pass runs
//   mirror-plain mirror-exits mirror-fanout   mirror without exits and second guesses, with one of
//                             the two: what each adds
//   NAME=COMMAND              what another program decides (bench/lab/outside_strategy.h)

// In the order of the list above.
std::vector<std::string> contender_names();

// The variants of these names; "all" means those up to edge-only. gammas:
// the draft lengths; a contender whose rounds have one gets a variant for each. Empty: each uses
// its own. INVALID_ARGUMENT for an unknown name, with the nearest one, for a repeated one, and for
// a program's name that is another's or no word.
Result<std::vector<GridVariant>> contenders(const std::vector<std::string>& names,
                                            const std::vector<int>& gammas);

// A plan and its results, with one variant in place of each group (GridVariant::best_of).
struct BestOfGroups {
  GridPlan plan;
  GridResult result;
};
// Keeps of each group the fastest variant at each setting. It is chosen on the same answers on
// which it is reported. This flatters it a little, so the error favours the rival.
BestOfGroups keep_best(const GridPlan& plan, GridResult result);

// Bars: at the paper's measured paces mirror is well ahead of the fastest strategy that waits for
// its verdicts, and never behind PicoSpec, which does not wait. Only for variants that ran; paces:
// of the settings, in their order.
std::vector<Bar> rival_bars(const GridResult& result, const std::vector<PaperPace>& paces);

}  // namespace outrider

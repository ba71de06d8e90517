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
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/harness/grid_plan.h"
#include "common/base/status.h"

namespace outrider {

// In the order of the list above.
std::vector<std::string> contender_names();

// Their variants; "all" stands for those above up to edge-only. gammas: the draft lengths, each
// contender whose rounds have one stands once for each; empty: each has its own. INVALID_ARGUMENT
// for an unknown name, with the nearest one, and for one that stands twice.
Result<std::vector<GridVariant>> contenders(const std::vector<std::string>& names,
                                            const std::vector<int>& gammas);

}  // namespace outrider

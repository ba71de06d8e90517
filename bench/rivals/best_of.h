// Of the variants that stand for one contender with several settings of its own, the fastest at
// each setting: rivals at their best.
//
// The best is taken on the answers that it is reported on, which flatters it a little: the choice
// errs on the rival's side.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/grid.h"

namespace outrider {

// A plan and what came of it, with one variant in place of each group (GridVariant::best_of).
struct BestOfGroups {
  GridPlan plan;
  GridResult result;
};
BestOfGroups keep_best(const GridPlan& plan, GridResult result);

}  // namespace outrider

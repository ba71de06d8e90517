// What a run is, for its journal and its report.
//
// Thread rule: pure functions, apart from reading the models' files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/grid_plan.h"
#include "bench/report/run_report.h"
#include "bench/scenario/run_flags.h"
#include "common/base/json.h"

namespace outrider {

// What decides whether two runs are the same one: a journal's first line.
Json run_identity(const RunFlags& flags, const GridPlan& plan);

// made_by and command are left to the caller.
RunDescription describe_run(const RunFlags& flags, const GridPlan& plan);

}  // namespace outrider

// LEVER's and EdgeLLM's tables and figures, for `outrider-bench reproduce`.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/checks/paper/reproduce_runs.h"

namespace outrider {

// The names of these tables and figures.
std::vector<std::string> tree_reproductions();

// options.what: one of these names. Without prompts: those of GSM8K that ship.
Status reproduce_trees(const ReproduceOptions& options, Findings& findings);

}  // namespace outrider

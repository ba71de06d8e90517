// The energy that the papers print, for `outrider-bench reproduce`: EdgeLLM's table V, LLMCad's
// table 5 (the same experiment), and the power of FSD's section on broader impact.
//
// All of our figures are modelled, from the device files in bench/cost/devices.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/checks/paper/reproduce_runs.h"

namespace outrider {

std::vector<std::string> energy_reproductions();

// options.what: one of these names. It reads the device files below the current folder.
Status reproduce_energy(const ReproduceOptions& options, Findings& findings);

}  // namespace outrider

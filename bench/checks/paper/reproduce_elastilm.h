// ElastiLM's figures by the sub-models of the demo target, for `outrider-bench reproduce`.
//
// Its phones print no times that a share could not replace, so an objective is a share of the full
// model's time, by its equation 1: the first token's is the prompt's share times the model's size,
// a later token's the size.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/checks/paper/reproduce_runs.h"

namespace outrider {

std::vector<std::string> elastilm_reproductions();

// what: one of these names. It reads models/demo-target and models/demo-draft below the current
// folder.
Status reproduce_elastilm(const std::string& what, Findings& findings);

}  // namespace outrider

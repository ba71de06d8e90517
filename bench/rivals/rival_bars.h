// The claims against other systems' ways: at the paper's measured paces mirror is well ahead of the
// fastest of them that wait for their verdicts, and never behind PicoSpec's, which does not.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bench/harness/bar.h"
#include "bench/harness/grid.h"
#include "bench/paces/paces.h"

namespace outrider {

// Where the run has mirror and the rivals; paces: of the settings, in their order.
std::vector<Bar> rival_bars(const GridResult& result, const std::vector<PaperPace>& paces);

}  // namespace outrider

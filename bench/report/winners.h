// Who is the fastest at a setting, as far as the intervals can tell.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/report/cell_report.h"

namespace outrider {

// The valid cells of one setting that decode the target's text, the fastest first, that the fastest
// is not clearly faster than: the 95 % interval of its speed over theirs, request by request, does
// not lie above 1. One cell alone is the fastest; several cannot be told apart; empty where no cell
// is valid.
std::vector<const CellReport*> winners(std::span<const CellReport* const> setting);

// Which variant is the fastest at how many settings, in words.
std::string winners_line(std::span<const CellReport> cells);

}  // namespace outrider

// The costs of a run's cells by a file of prices, and where drafting on the edge stops paying.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/cost/break_even.h"
#include "bench/report/run_report.h"
#include "bench/report/text_table.h"

namespace outrider {

// Computes the costs of the valid cells.
void price_cells(const Prices& prices, std::vector<CellReport>& cells);

// The cells of a report that have a cost.
std::vector<CostedCell> costed_cells(const RunReport& report);
std::vector<BreakEven> break_evens_of(const RunReport& report);

// Dollars per million output tokens.
TextTable cost_table(std::span<const CostedCell> cells);
TextTable break_even_table(const std::vector<BreakEven>& found);

// Explains break_even_table().
inline constexpr const char* kBreakEvenCaption =
    "For each strategy that drafts on the edge, compared with plain decoding (ar) over the same "
    "link: at "
    "which of the round trips of the run it costs at least 1 % less, and from which acceptance of "
    "each drafted token on it would cost no more (of a chain; the least and the most over these "
    "round trips). Time is milliseconds of waiting. A shared GPU serves others while a session "
    "waits; a reserved one is paid for all the time. Networks differ in more than their round "
    "trip, so the point between two of them is approximate.";

// Both tables; without prices a line that says there are none.
std::string cost_markdown(const RunReport& report);

}  // namespace outrider

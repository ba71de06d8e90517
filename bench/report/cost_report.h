// What the cells of a run cost by a file of prices, and where drafting on the edge stops paying.
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

// Of the valid cells.
void price_cells(const Prices& prices, std::vector<CellReport>& cells);

// Those cells of a report that are priced.
std::vector<CostedCell> costed_cells(const RunReport& report);
std::vector<BreakEven> break_evens_of(const RunReport& report);

// Dollars per million output tokens.
TextTable cost_table(std::span<const CostedCell> cells);
TextTable break_even_table(const std::vector<BreakEven>& found);

// What the words of break_even_table() mean.
inline constexpr const char* kBreakEvenCaption =
    "Of each strategy that drafts on the edge, against plain decoding (ar) over the same link: at "
    "which of the round trips of the run it costs at least 1 % less, and from which acceptance of "
    "each drafted token on it would cost no more (of a chain; the least and the most over these "
    "round trips). Time is milliseconds of waiting. A shared GPU works for others while a session "
    "waits; a reserved one is paid for all the time. Networks differ in more than their round "
    "trip, so where drafting stops paying between two of them is about.";

// Both tables; without prices a line that says so.
std::string cost_markdown(const RunReport& report);

}  // namespace outrider

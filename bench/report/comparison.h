// Two reports of the same grid against each other: how many times slower the second is, cell by
// cell, over the requests that both have.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/stats/statistics.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

struct CellChange {
  std::string setting;
  std::string variant;
  std::size_t pairs = 0;             // requests that both reports have
  std::optional<Estimate> slowdown;  // time per token of the second / of the first

  // Slower by more than `limit` (0.05: 5 %), and not by chance: the whole interval is.
  bool regressed(double limit) const {
    return slowdown && slowdown->interval && slowdown->interval->low > 1 + limit;
  }
};

struct Comparison {
  std::vector<CellChange> cells;       // those that both reports have
  std::vector<std::string> only_once;  // names of the others
};

// Reports as report_json() makes them; names are for errors. INVALID_ARGUMENT, with what differs,
// for another schema, other models, another clock, other prompts or another seed, another set-up,
// and for cells of one name over other links or devices, or with another draft length: their times
// say nothing about each other. DATA_LOSS for a report that lacks a field.
Result<Comparison> compare_reports(const Json& first, const std::string& first_name,
                                   const Json& second, const std::string& second_name);

}  // namespace outrider

// Compares two reports of the same grid, cell by cell: how many times slower the second one is,
// over the requests that both have.
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

  // Whether it is slower by more than `limit` (0.05: 5 %) with its whole interval, so not by
  // chance.
  bool regressed(double limit) const {
    return slowdown && slowdown->interval && slowdown->interval->low > 1 + limit;
  }
};

struct Comparison {
  std::vector<CellChange> cells;       // those that both reports have
  std::vector<std::string> only_once;  // names of the others
};

// Takes reports made by report_json(); names are for errors. INVALID_ARGUMENT, with the difference,
// for another schema, other models, another clock, other prompts, another seed or set-up, and for
// cells of one name over other links or devices or with another draft length: their times cannot be
// compared. DATA_LOSS for a report that lacks a field.
Result<Comparison> compare_reports(const Json& first, const std::string& first_name,
                                   const Json& second, const std::string& second_name);

}  // namespace outrider

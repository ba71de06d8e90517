// What `outrider-bench reproduce` finds, line by line, and what its parts share.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/checks/paper/reproduce_runs.h"
#include "bench/harness/statistics.h"
#include "common/base/json.h"

namespace outrider {

struct Findings {
  Json rows = Json::array();
  std::vector<std::string> differences = {};

  // Lists a formula that is far from what is printed.
  void compare(const std::string& what, double printed, double formula);
};

// Seven columns; a dash for nothing.
std::string shown(std::optional<double> value);
std::optional<double> value_of(const std::optional<Estimate>& estimate);
Json json_of(std::optional<double> value);

// The paper's r, "how often we fail to find the final output in one of the early exits": verdicts
// whose next round was not begun. A slow draft begins rounds that it cannot end in time: at the
// 13B paces on Jetson a round takes more than twice the pass, and yet r is printed as 0.6.
std::optional<double> not_begun(const AnswerFigures& sum);

// What rests on exits: queues, threads and draft lengths, exits themselves.
Status reproduce_table7(const ReproduceOptions& options, Findings& findings);
Status reproduce_figure4(const ReproduceOptions& options, Findings& findings);
Status reproduce_figure7(const ReproduceOptions& options, Findings& findings);

}  // namespace outrider

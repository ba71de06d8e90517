// Runs at the FSD paper's paces under the virtual clock, for `outrider-bench reproduce`.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/grid.h"
#include "bench/harness/grid_flags.h"
#include "bench/paper/fsd_tables.h"
#include "bench/stats/statistics.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

inline constexpr int kPaperDraftLength = 4;  // γ of its tables

struct ReproduceOptions {
  GridFlags grid;
  std::string what;
  std::optional<double> exit_scale;  // of synthetic exits; nothing: as fitted
};

double exit_scale_of(const ReproduceOptions& options);

// fsd with as many hypotheses at once as figure 4a levels off with: 15. The paper does not say how
// many its tables 6 and 8 had.
GridVariant with_paper_workers(const std::string& name);

// Figure 4's and, as it seems, table 7's: GSM8K, 68M and 7B, RTX.
const PaperSpeed& gsm8k_on_rtx();

// The demo pair at these paces, printed pass times; nothing without prompts.
Result<std::optional<GridResult>> demo_run(const ReproduceOptions& options,
                                           const std::vector<std::string>& paces,
                                           std::vector<GridVariant> variants);

// For each row a pair without models that accepts as the row says, at the row's pace, with an exit
// after each layer. Settings are named by synthetic_setting().
Result<std::optional<GridResult>> synthetic_run(const ReproduceOptions& options,
                                                std::span<const PaperSpeed> rows,
                                                std::vector<GridVariant> variants);
std::string synthetic_setting(const PaperSpeed& row);

// What `outrider-bench reproduce` finds, line by line, and what its parts share.
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

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
#include "bench/paper/claim.h"
#include "bench/paper/fsd_tables.h"
#include "bench/stats/statistics.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

inline constexpr int kPaperDraftLength = 4;  // γ of its tables

struct ReproduceOptions {
  GridFlags grid;
  std::string what;
  std::optional<double> exit_scale;  // of synthetic exits; nothing: the fitted scale
};

double exit_scale_of(const ReproduceOptions& options);

// fsd with 15 hypotheses at once, where figure 4a levels off. The paper does not say how many
// tables 6 and 8 used.
GridVariant with_paper_workers(const std::string& name);

// The setting of figure 4 and, apparently, of table 7: GSM8K, 68M and 7B, RTX.
const PaperSpeed& gsm8k_on_rtx();

// The demo pair at these paces, with the printed pass times; nothing without prompts.
Result<std::optional<GridResult>> demo_run(const ReproduceOptions& options,
                                           const std::vector<std::string>& paces,
                                           std::vector<GridVariant> variants);

// For each row a pair without models: the row's acceptance at the row's pace, with an exit after
// each layer. synthetic_setting() gives the settings' names.
Result<std::optional<GridResult>> synthetic_run(const ReproduceOptions& options,
                                                std::span<const PaperSpeed> rows,
                                                std::vector<GridVariant> variants);
std::string synthetic_setting(const PaperSpeed& row);

// The findings of a reproduction: its table as JSON, the claims that it judges, and remarks.
struct Findings {
  Json rows = Json::array();
  std::vector<PrintedClaim> claims = {};
  std::vector<std::string> differences = {};
};

// Seven columns; a missing figure is a dash.
std::string shown(std::optional<double> value);
std::optional<double> value_of(const std::optional<Estimate>& estimate);
Json json_of(std::optional<double> value);

// The paper's r, "how often we fail to find the final output in one of the early exits": the
// verdicts whose next round was not started. A slow draft starts rounds that it cannot finish in
// time: at the 13B paces on Jetson a round takes more than twice the pass, and yet r is printed as
// 0.6.
std::optional<double> not_begun(const AnswerFigures& sum);

// Times of table 5 or 8a at a pace, for table 4.
PaperTimes times_at(const PaperPace& pace);

// The figures that depend on exits: queues, threads, draft lengths, and the exits themselves.
Status reproduce_table7(const ReproduceOptions& options, Findings& findings);
Status reproduce_figure4(const ReproduceOptions& options, Findings& findings);
Status reproduce_figure7(const ReproduceOptions& options, Findings& findings);

}  // namespace outrider

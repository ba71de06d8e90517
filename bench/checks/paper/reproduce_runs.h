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

}  // namespace outrider

// The experiment: settings (a pace and a link) times variants (a strategy with its flags) times
// prompts, each answer by a real outrider-server and a real outrider-edge over gRPC through an
// emulated link, each process on a core of its own.
//
// Order: settings outside, prompts inside, and for each prompt all variants, beginning with another
// one each time: what changes slowly (heat, other work on the machine) hits all variants alike.
// First every prompt is decoded once without pace or delay by plain cloud decoding; each answer's
// tokens are held against that text. The speed of a wrong text is worthless: a cell with mismatches
// takes part in no ratio.
//
// time_scale S runs all emulated times S times faster and multiplies measured times by S. What is
// not emulated (our own overhead, the real work under a pace) then counts S times, in every variant,
// so a ratio may err either way.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/harness/answer.h"
#include "bench/harness/grid_plan.h"
#include "common/base/status.h"
#include "common/model/emulated/paced_model.h"

namespace outrider {

struct GridCell {
  std::string setting;
  std::string variant;
  Strategy strategy = Strategy::kAr;
  std::vector<AnswerFigures> answers;  // [prompt]
  std::size_t mismatches = 0;          // answers that differ from plain decoding's text
  std::string speculation;             // of the last answer
};

struct GridOverruns {
  std::string setting;
  PaceCounts target;
  PaceCounts draft;
};

struct GridResult {
  std::vector<GridCell> cells;  // setting by setting, variants in the plan's order
  std::vector<GridOverruns> overruns = {};  // of the paced settings
  std::size_t compared = 0;     // answers held against plain decoding's text
  std::size_t mismatches = 0;   // of these, those that differ
  std::size_t reference_tokens = 0;

  const GridCell* find(const std::string& setting, const std::string& variant) const;
};

// Progress and mismatches go to stderr. INVALID_ARGUMENT with the edge's own words if it refuses a
// strategy or a flag.
Result<GridResult> run_grid(const GridPlan& plan);

}  // namespace outrider

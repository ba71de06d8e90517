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
// not emulated (our own overhead, the real work under a pace) then counts S times, in every
// variant, so a ratio may err either way.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/harness/answer.h"
#include "common/base/status.h"
#include "common/model/emulated/pace.h"
#include "common/sampling/sampling.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

struct GridSetting {
  std::string name;
  PaceCurve pass;             // of the target; empty: unpaced
  PaceCurve pass_with_exits;  // of the target, for variants that use exits
  PaceCurve step;             // of the draft; empty: unpaced
  double one_way_ms = 0;
};

struct GridVariant {
  std::string name;
  Strategy strategy = Strategy::kAr;
  int gamma = 0;  // draft length; 0: the plan's
  bool uses_exits = false;
  std::vector<std::string> edge_flags;    // after the strategy's own
  std::vector<std::string> server_flags;  // variants with the same ones share a server
};

// The variant of a strategy as it is compared: "fsd" is the paper's, on a server of its own whose
// exits are not calibrated.
GridVariant variant_of(Strategy strategy);

struct GridPlan {
  std::string target;  // directories
  std::string draft;
  std::string dtype = "auto";
  std::string exits = "auto";  // of the target, for outrider-server
  std::vector<std::string> prompts;
  int max_tokens = 200;
  int gamma = 4;
  SamplingParams sampling;
  std::uint64_t seed = 0;
  double time_scale = 1;
  std::vector<GridSetting> settings;
  std::vector<GridVariant> variants;
};

struct GridCell {
  std::string setting;
  std::string variant;
  Strategy strategy = Strategy::kAr;
  std::vector<AnswerFigures> answers;  // [prompt]
  std::size_t mismatches = 0;          // answers that differ from plain decoding's text
  std::string speculation;             // of the last answer
};

struct GridResult {
  std::vector<GridCell> cells;  // setting by setting, variants in the plan's order
  std::size_t compared = 0;     // answers held against plain decoding's text
  std::size_t mismatches = 0;   // answers that differ from it
  std::size_t reference_tokens = 0;

  const GridCell* find(const std::string& setting, const std::string& variant) const;
};

// Progress and mismatches go to stderr. INVALID_ARGUMENT with the edge's own words if it refuses a
// strategy or a flag.
Result<GridResult> run_grid(const GridPlan& plan);

}  // namespace outrider

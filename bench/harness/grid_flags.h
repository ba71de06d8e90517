// The flags that all checks over a grid of real processes share.
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/check.h"
#include "bench/harness/grid.h"
#include "bench/harness/prompt_file.h"
#include "bench/paces/paces.h"
#include "common/base/json.h"

namespace outrider {

struct GridFlags {
  // Without prompts, settings and variants, which make_experiment() adds.
  GridPlan plan = {.target = "models/demo-target", .draft = "models/demo-draft"};
  std::string prompts;  // kPromptSets, except where no prompts mean something
  std::size_t num_prompts = 8;
  std::vector<std::string> paces = {"all"};
  std::vector<double> delays_ms;  // one way; empty: the pace's own
  std::vector<PassTimes> pass_times = {PassTimes::kPrinted};
  std::vector<PaceLink> pace_links = {PaceLink::kWhole};
  std::optional<double> cloud_step_ms;  // of a draft beside the target
  std::optional<double> exit_cost;      // measured pass times with exits need it
  // Measures exit_cost if it is needed and not given; null: a missing one is refused.
  std::function<Result<double>()> measure_exit_cost;
  double temperature = 0;
};

// The values in `flags` are the defaults.
void add_prompts_flag(CLI::App& command, std::string& prompts);
void add_grid_flags(CLI::App& command, GridFlags& flags);
// Its parts: models, prompts and seed; devices. --prompts is optional.
void add_model_flags(CLI::App& command, GridFlags& flags);
void add_pace_flags(CLI::App& command, GridFlags& flags);

struct GridExperiment {
  GridPlan plan;
  std::vector<PaperPace> paces;     // of plan.settings, in their order
  std::optional<double> exit_cost;  // if a pass needs one: from the flag, or measured
};

// Without --prompts the plan has none. INVALID_ARGUMENT for an unknown pace, prompts that cannot be
// read, measured pass times without the cost of exits that a variant uses.
Result<GridExperiment> make_experiment(const GridFlags& flags, std::vector<GridVariant> variants);

// The bars of every such run: the texts are plain decoding's, and emulated paces were kept.
void hold_run(const GridResult& result, CheckOutcome& outcome);

// The conditions of a result, for the JSON of every such check.
Json experiment_json(const GridFlags& flags, const GridExperiment& experiment);

}  // namespace outrider

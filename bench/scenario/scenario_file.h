// Scenario files: what a run measures, in TOML, so that it can be kept, shared and run again.
//
//   network = ["lte", "starlink"]
//   strategy = ["ar", "sd", "mirror"]
//   prompts = "prompts.jsonl"
//   num-prompts = 20
//
// A key is the name of a flag of the command, without dashes; a list is the flag's comma list.
// Flags on the command line and environment variables come before the file.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "bench/harness/grid_plan.h"
#include "common/base/status.h"

namespace outrider {

// Acceptance in place of models: what a paper prints of a data set, as TOML.
//
//   [[data_set]]
//   name = "CNN/DM"
//   tau = 1.95          # tokens per round
//   gamma = 4           # drafted tokens of a round with which that was measured; 4
//   miss_rate = 0.294   # optional: rounds that were not there when the verdict came
//   mean_exit = 15      # with miss_rate: the mean layer of the exits that named the others

// INVALID_ARGUMENT, with the line, for what is no TOML, an unknown key, a value out of bounds, a
// name that stands twice, no data set at all; NOT_FOUND.
Result<std::vector<SyntheticAcceptance>> read_synthetic_acceptance(const std::string& path);

// Gives `command`'s options, which have been parsed, what the file says. Paths in the file are
// taken as they stand, from the folder where the program runs.
// INVALID_ARGUMENT, with the file's line, for text that is no TOML, a key that no flag has (with
// the nearest one), a table, and a value that its flag refuses; NOT_FOUND.
Status apply_scenario(const std::string& path, CLI::App& command);

}  // namespace outrider

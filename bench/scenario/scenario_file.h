// Scenario files: the grid of a run in TOML, so that it can be kept, shared and repeated.
//
//   network = ["lte", "starlink"]
//   strategy = ["ar", "sd", "mirror"]
//   prompts = "prompts.jsonl"
//   num-prompts = 20
//
// A key is the name of a flag of the command, without dashes; a TOML list is the flag's list. Flags
// on the command line and environment variables take precedence.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "bench/harness/grid_plan.h"
#include "common/base/status.h"

namespace outrider {

// Acceptance in place of models: a paper's figures of data sets, as TOML.
//
//   [[data_set]]
//   name = "CNN/DM"
//   tau = 1.95          # tokens per round
//   gamma = 4           # optional: drafted tokens per round with which tau was measured; 4
//   miss_rate = 0.294   # optional: share of rounds that were not there at the verdict
//   mean_exit = 15      # with miss_rate: the mean layer of the exits that named the others

// INVALID_ARGUMENT, with the line, for invalid TOML, an unknown key, a value out of bounds, a
// repeated name, or no data set; NOT_FOUND.
Result<std::vector<SyntheticAcceptance>> read_synthetic_acceptance(const std::string& path);

// Sets `command`'s options, which have been parsed, from the file. Paths in the file are relative
// to the folder in which the program runs. INVALID_ARGUMENT, with the file's line, for invalid
// TOML, an unknown key (with the nearest flag), a table, and a value that its flag refuses;
// NOT_FOUND.
Status apply_scenario(const std::string& path, CLI::App& command);

}  // namespace outrider

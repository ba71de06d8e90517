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

#include "common/base/status.h"

namespace outrider {

// Gives `command`'s options, which have been parsed, what the file says. Paths in the file are
// taken as they stand, from the folder where the program runs.
// INVALID_ARGUMENT, with the file's line, for text that is no TOML, a key that no flag has (with
// the nearest one), a table, and a value that its flag refuses; NOT_FOUND.
Status apply_scenario(const std::string& path, CLI::App& command);

}  // namespace outrider
